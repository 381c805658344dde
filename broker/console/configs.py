"""Configurations of topics and brokers: what each value means, where it comes from, and its change.

They are asked of the broker as Kafka's tools ask it (DescribeConfigs, IncrementalAlterConfigs).
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

from broker.config.definition import ConfigDef, ConfigType
from broker.config.defs import TOPIC_CONFIGS, definition_of
from broker.config.defs.not_needed import ALTERED_ONLY
from broker.config.describe import ConfigSource
from broker.console import formats
from broker.console.ask import Ask, Done, Values
from broker.console.own_client import ask_at, ask_broker, require
from broker.console.tables import CHANGE, order_of, texts
from broker.console.topics import seen_topic
from broker.testkit.control.endpoint import ControlError
from metadata.configs import ResourceType

SET, DELETE = 0, 1
"""The operations of IncrementalAlterConfigs."""

SOURCES = {
    ConfigSource.TOPIC: "this topic",
    ConfigSource.DYNAMIC_BROKER: "this broker",
    ConfigSource.DYNAMIC_DEFAULT_BROKER: "all brokers",
    ConfigSource.STATIC_BROKER: "the broker's file",
    ConfigSource.DEFAULT: "(default)",
}

UNLIMITED = "unlimited"
MS = {"ms": 1, "s": 1000, "minutes": 60_000, "hours": 3_600_000}
LEAST_MEANT = 1000
"""Bytes that are said in another unit."""


class Config(NamedTuple):
    """A configuration as a page shows it. `default` is what it would be if it were not set here."""

    name: str
    value: str | None
    meaning: str
    source: str
    is_set: bool
    default: str | None
    type: str
    expected: str
    choices: tuple[str, ...]
    doc: str
    read_only: bool
    sensitive: bool


def type_name(number: int) -> str:
    """`boolean`, `long`; empty for one that nobody knows."""
    return ConfigType(number).name.lower() if number else ""


def meaning(definition: ConfigDef | None, value: str | None) -> str:
    """A number of ms or bytes as people say it: `7 d` for 604800000; empty if there is nothing to say."""
    if definition is None or value is None or definition.type not in (ConfigType.INT, ConfigType.LONG):
        return ""
    try:
        number = int(value)
    except ValueError:
        return ""
    if number >= (1 << 31) - 1 and number in ((1 << 63) - 1, (1 << 31) - 1):
        return UNLIMITED
    if definition.unit in MS:
        return UNLIMITED if number == -1 else formats.duration(number * MS[definition.unit]) if number else ""
    if definition.unit == "bytes":
        return UNLIMITED if number == -1 else formats.size(number) if number >= LEAST_MEANT else ""
    return ""


async def describe(ask: Ask, kind: ResourceType, name: str, broker_id: int | None = None) -> list[Config]:
    """The configurations of a resource; those that are set for it come first. Raises ControlError, KafkaError."""
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    request = DescribeConfigsRequest(resources=(resource,), include_synonyms=True, include_documentation=True)
    (result,) = (await ask_at(ask, broker_id, request)).results
    require(result)
    own = {ResourceType.TOPIC: ConfigSource.TOPIC, ResourceType.BROKER: ConfigSource.DYNAMIC_BROKER}[kind]
    if kind is ResourceType.BROKER and not name:
        own = ConfigSource.DYNAMIC_DEFAULT_BROKER
    found = [_config(kind, each, own) for each in result.configs]
    return sorted(found, key=lambda one: (not one.is_set, one.source == SOURCES[ConfigSource.DEFAULT], one.name))


def _config(kind: ResourceType, told: Any, own: ConfigSource) -> Config:
    definition = TOPIC_CONFIGS.get(told.name) if kind is ResourceType.TOPIC else _definition(told.name)
    is_set = told.config_source == own
    default = next((each.value for each in told.synonyms if each.source != own), None) if is_set else None
    if default is None and definition is not None and not definition.sensitive:
        default = definition.default_text
    return Config(
        told.name,
        told.value,
        meaning(definition, told.value),
        SOURCES.get(ConfigSource(told.config_source), ""),
        is_set,
        default,
        type_name(told.config_type),
        "" if definition is None else definition.expected,
        ("true", "false") if told.config_type == ConfigType.BOOLEAN else (),
        told.documentation or ("" if definition is None else definition.doc),
        told.read_only,
        told.is_sensitive,
    )


def _definition(name: str) -> ConfigDef | None:
    return definition_of(name) or ALTERED_ONLY.get(name)


async def topic_configs(ask: Ask) -> Values:
    topic = seen_topic(ask, "name").name
    return {
        "title": f"Configuration of {topic}",
        "topic": topic,
        **_shown(ask, await describe(ask, ResourceType.TOPIC, topic)),
    }


async def broker_configs(ask: Ask) -> Values:
    """Those of one broker, by default this one; of all brokers for `all`."""
    name, broker_id = _broker(ask)
    return {
        "title": "Configuration of all brokers" if broker_id is None else f"Configuration of broker {broker_id}",
        "broker": name or ALL,
        "brokers": [ALL, *(str(one.id) for one in sorted(_alive(ask), key=lambda one: one.id))],
        **_shown(ask, await describe(ask, ResourceType.BROKER, name, broker_id)),
    }


ALL = "all"
"""In the place of a broker's id: all brokers."""


def _alive(ask: Ask) -> Sequence[Any]:
    return list(ask.node.cluster.cache.image.cluster.alive())


def _broker(ask: Ask) -> tuple[str, int | None]:
    """The resource's name and the broker to ask: empty and None for all of them. Raises ControlError."""
    if ask.text("broker") == ALL:
        return "", None
    broker_id = ask.integer("broker", ask.node.node_id, most=(1 << 31) - 1)
    if broker_id not in [ask.node.node_id, *(one.id for one in _alive(ask))]:
        raise ControlError(f"there is no broker {broker_id} that is alive", parameter="broker", status=404)
    return str(broker_id), broker_id


COLUMNS = (
    texts("name", "Name", attrgetter("name")),
    texts("value", "Value", attrgetter("value")),
    texts("source", "Set for", attrgetter("source")),
    texts("default", "Default", attrgetter("default")),
    texts("type", "Type", attrgetter("type")),
    CHANGE,
)


def _shown(ask: Ask, configs: list[Config]) -> Values:
    """The list, as far as names have what is asked for, and the one that is to be changed."""
    part, key = ask.text("q").lower(), ask.text("key")
    only_set = ask.text("only") == "set"
    chosen = next((one for one in configs if one.name == key), None)
    if key and chosen is None:
        chosen = _new(key)
    order = order_of(ask, COLUMNS)
    return {
        "order": order,
        "configs": order.sort([one for one in configs if part in one.name.lower() and (one.is_set or not only_set)]),
        "q": part,
        "only_set": only_set,
        "chosen": chosen,
        "names": sorted(one.name for one in configs if not one.read_only),
    }


def _new(key: str) -> Config:
    """One of all brokers that is not set yet: nobody tells of it but its definition. Raises ControlError."""
    definition = _definition(key)
    if definition is None:
        raise ControlError(f"there is no configuration {key!r}", parameter="key", status=404)
    return Config(
        key,
        None,
        "",
        SOURCES[ConfigSource.DEFAULT],
        False,
        None if definition.sensitive else definition.default_text,
        type_name(definition.type),
        definition.expected,
        ("true", "false") if definition.type is ConfigType.BOOLEAN else (),
        definition.doc,
        False,
        definition.sensitive,
    )


async def alter_topic(ask: Ask) -> Done:
    topic = ask.needed("topic")
    await _alter(ask, ResourceType.TOPIC, topic, None)
    return Done({"name": topic})


async def alter_broker(ask: Ask) -> Done:
    name, broker_id = _broker(ask)
    await _alter(ask, ResourceType.BROKER, name, broker_id)
    return Done({"broker": name or ALL})


async def _alter(ask: Ask, kind: ResourceType, name: str, broker_id: int | None) -> None:
    """Set the value, or `do=reset`: be without one here. Raises ControlError, KafkaError."""
    key, is_set = ask.needed("key"), ask.choice("do", ("set", "reset")) == "set"
    change = AlterableConfig(
        name=key, config_operation=SET if is_set else DELETE, value=ask.given.get("value", "") if is_set else None
    )
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=(change,))
    request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    answer = await (ask_broker(ask, request) if broker_id is None else ask_at(ask, broker_id, request))
    require(answer.responses[0], "value")
