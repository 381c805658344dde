"""The answers of DescribeConfigs: values, their sources and their synonyms (Kafka's `ConfigHelper`)."""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from broker.config.broker_config import BrokerConfig
from broker.config.definition import ConfigDef, InvalidValueError, Synonym, UpdateMode, parse_integer, to_text
from broker.config.defs import BROKER_CONFIGS, KNOWN_CONFIGS, TOPIC_CONFIGS, definition_of, described_names
from broker.config.defs.not_needed import ALTERED_ONLY, NOT_NEEDED
from broker.config.resource_configs import known_topic_configs, topic_values
from protocol.errors import InvalidRequest


def node_id_of(name: str, *, called: str) -> int:
    """The id in a resource's name; `01` and `+1` are 1. Raises InvalidRequest.

    `called` is Kafka's word for the id in its refusal: "Broker" when describing, "Node" when altering.
    """
    node_id = parse_integer(name, 32)
    if node_id is None:
        raise InvalidRequest(f"{called} id must be an integer, but it is: {name}")
    return node_id


class ConfigSource(enum.IntEnum):
    """Where a value comes from, numbered as on the wire (`DescribeConfigsResponse.ConfigSource`)."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One configuration as DescribeConfigs reports it. `type` is the number on the wire, 0 for an unknown name."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    sensitive: bool
    synonyms: tuple[ConfigSynonym, ...]
    type: int
    documentation: str | None


Keys = Collection[str] | None
Describe = Callable[[BrokerConfig, Mapping[str, str | None], Keys], list[ConfigEntry]]


def describe_topic(
    broker_config: BrokerConfig, overrides: Mapping[str, str | None], keys: Keys = None
) -> list[ConfigEntry]:
    """The topic's configurations: all of them, or those of `keys`. Raises InvalidConfiguration for wrong overrides."""
    values = topic_values(broker_config, known_topic_configs(overrides))
    entries: list[ConfigEntry] = []
    for name in _chosen(_names_of_topic(overrides), keys):
        definition = TOPIC_CONFIGS[name]
        text = to_text(values[name])
        synonyms = broker_synonyms(broker_config, definition.synonyms[0].name) if definition.synonyms else ()
        if name in overrides:
            synonyms = (ConfigSynonym(name, text, ConfigSource.TOPIC), *synonyms)
        entries.append(_entry(name, text, synonyms, definition, read_only=False))
    return entries


def describe_new_topic(
    broker_config: BrokerConfig, overrides: Mapping[str, str | None], keys: Keys = None
) -> list[ConfigEntry]:
    """As CreateTopics tells them: as the text that was given, by whichever name (Kafka's `KafkaConfigSchema`)."""
    entries: list[ConfigEntry] = []
    for name in _chosen(_names_of_topic(overrides), keys):
        definition = TOPIC_CONFIGS[name]
        text, source = overrides.get(name), ConfigSource.TOPIC
        if text is None:
            text, source = _inherited(broker_config, definition)
        entries.append(_entry(name, text, (ConfigSynonym(name, text, source),), definition, read_only=False))
    return entries


def _inherited(config: BrokerConfig, definition: ConfigDef) -> tuple[str | None, ConfigSource]:
    """Return the value for a topic that does not set it: in the topic's unit, otherwise as it was given."""
    for values, source in _layers(config):
        for synonym in definition.synonyms:
            text = values.get(synonym.name)
            if text is not None:
                return _in_topics_unit(text, synonym), source
    return definition.default_text, ConfigSource.DEFAULT


def _in_topics_unit(text: str, synonym: Synonym) -> str:
    if synonym.factor == 1:
        return text
    number = BROKER_CONFIGS[synonym.name].parse(text)
    assert isinstance(number, int)
    return str(number * synonym.factor)


class TopicDescriber:
    """`describe_topic` for the topics of one request; topics with the same configuration are described only once.

    Otherwise a request for a thousand topics would block the loop for half a second.
    """

    def __init__(self, broker_config: BrokerConfig, describe: Describe = describe_topic) -> None:
        self._broker_config = broker_config
        self._describe = describe
        self._described: dict[tuple[frozenset[tuple[str, str | None]], Keys], list[ConfigEntry]] = {}

    def describe(self, overrides: Mapping[str, str | None], keys: Keys = None) -> list[ConfigEntry]:
        alike = frozenset(overrides.items()), None if keys is None else tuple(keys)
        entries = self._described.get(alike)
        if entries is None:
            entries = self._described[alike] = self._describe(self._broker_config, overrides, keys)
        return entries


def describe_broker(config: BrokerConfig, keys: Keys = None) -> list[ConfigEntry]:
    """The broker's configurations: all of them, or those of `keys`; unknown ones that were given are included."""
    given = (*config.static, *config.dynamic_broker, *config.dynamic_default)
    public = (name for name, definition in KNOWN_CONFIGS.items() if not definition.internal | definition.of_plugin)
    return [
        _broker_entry(config, name, broker_synonyms(config, name))
        for name in _chosen(dict.fromkeys((*public, *given)), keys)
    ]


def describe_broker_default(config: BrokerConfig, keys: Keys = None) -> list[ConfigEntry]:
    """Describe the settings of the whole cluster: the answer to DescribeConfigs for the broker named ''."""
    entries: list[ConfigEntry] = []
    for name in _chosen(config.dynamic_default, keys):
        synonyms = tuple(
            synonym
            for synonym in broker_synonyms(config, name)
            if synonym.source is ConfigSource.DYNAMIC_DEFAULT_BROKER
        )
        entries.append(_broker_entry(config, name, synonyms, config.dynamic_default[name]))
    return entries


def require_this_broker(config: BrokerConfig, resource_name: str) -> None:
    """Raises InvalidRequest unless the resource is this broker."""
    if node_id_of(resource_name, called="Broker") != config.node_id:
        raise InvalidRequest(
            f"Unexpected broker id, expected {config.node_id} or empty string, but received {resource_name}"
        )


def _broker_entry(
    config: BrokerConfig, name: str, synonyms: tuple[ConfigSynonym, ...], text: str | None = None
) -> ConfigEntry:
    definition = _definition(name)
    if text is None:
        text = _broker_text(config, name, synonyms)
    own = definition_of(name)
    read_only = name not in ALTERED_ONLY and (own is None or own.mode is UpdateMode.READ_ONLY)
    entry = _entry(name, text, synonyms, definition, read_only=read_only)
    return entry if own else replace(entry, documentation=None)


def _broker_text(config: BrokerConfig, name: str, synonyms: tuple[ConfigSynonym, ...]) -> str | None:
    """The value in force, written as Kafka writes parsed ones; what has no definition is told as it was given."""
    if name in config.values:
        return to_text(config.values[name])
    text = next((synonym.value for synonym in synonyms), None)
    unused = NOT_NEEDED.get(name)
    if unused is None or text is None:
        return text
    try:
        return to_text(unused.parse(text))
    except InvalidValueError:  # of a file: classes of Java's are not looked for at the start
        return text


def is_secret(name: str) -> bool:
    """Whether the value of a configuration is a password, a key, or has one in it."""
    definition = _definition(name)
    return definition is not None and definition.sensitive


def _definition(name: str) -> ConfigDef | None:
    """The definition of `name`; a listener's configuration has that of the broker's."""
    return definition_of(name) or ALTERED_ONLY.get(name) or definition_of(described_names(name)[-1])


def _entry(
    name: str, text: str | None, synonyms: tuple[ConfigSynonym, ...], definition: ConfigDef | None, *, read_only: bool
) -> ConfigEntry:
    hidden = definition is None or definition.sensitive
    return ConfigEntry(
        name=name,
        value=None if hidden else text,
        source=synonyms[0].source if synonyms else ConfigSource.DEFAULT,
        read_only=read_only,
        sensitive=hidden,
        synonyms=synonyms,
        type=definition.type if definition else 0,
        documentation=definition.doc if definition else None,
    )


def broker_synonyms(config: BrokerConfig, name: str) -> tuple[ConfigSynonym, ...]:
    """Every place that sets `name`, highest precedence first; what precedes its own name is left out, as Kafka does."""
    found: list[ConfigSynonym] = []
    names = described_names(name)
    definition = _definition(name)
    hidden = definition is None or definition.sensitive
    defaults = {other: known.default_text for other in names if (known := definition_of(other))}
    for values, source in (*_layers(config), (defaults, ConfigSource.DEFAULT)):
        for other in names:
            value = values.get(other)
            if value is not None:
                found.append(ConfigSynonym(other, None if hidden else value, source))
    own = next((index for index, synonym in enumerate(found) if synonym.name == name), len(found))
    return tuple(found[own:])


def _layers(config: BrokerConfig) -> tuple[tuple[Mapping[str, str], ConfigSource], ...]:
    """All that was set, highest precedence first."""
    return (
        (config.dynamic_broker, ConfigSource.DYNAMIC_BROKER),
        (config.dynamic_default, ConfigSource.DYNAMIC_DEFAULT_BROKER),
        (config.static, ConfigSource.STATIC_BROKER),
    )


def _names_of_topic(overrides: Collection[str]) -> list[str]:
    return [name for name, definition in TOPIC_CONFIGS.items() if not definition.internal or name in overrides]


def _chosen(names: Iterable[str], keys: Keys) -> list[str]:
    """`names` (only those in `keys`, if there are any), sorted."""
    return sorted(name for name in names if not keys or name in keys)
