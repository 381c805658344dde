"""The broker's configuration, parsed: an immutable value with typed access (`KafkaConfig`, `DynamicBrokerConfig`).

The one place that has a node's configuration as it is now.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import structlog

from broker.config.definition import ConfigType, InvalidValueError, Value, parse_integer
from broker.config.defs import BROKER_CONFIGS, KNOWN_CONFIGS, TOPIC_CONFIGS, names_of
from broker.config.defs.node import DEFAULTS_IN_A_CLUSTER
from broker.config.defs.not_needed import NOT_NEEDED
from metadata.configs import CLUSTER_DEFAULT, ResourceType

if TYPE_CHECKING:
    from metadata.image import MetadataImage

logger = structlog.get_logger(__name__)

PROVIDERS = "config.providers"

_EMPTY: Mapping[str, str] = MappingProxyType({})


class ConfigurationError(ValueError):
    """One or more wrong values; `problems` has a line for each."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """Parsed values by name.

    `static` is the text given at startup, with `origins` saying where; `dynamic_broker` and `dynamic_default` are what
    AlterConfigs set for this broker and for the whole cluster. Precedence: dynamic of this broker, dynamic of the
    cluster, static, default. `given` combines all that was set, unknown names included. No value is shown when
    this is printed: there are passwords among them.
    """

    values: Mapping[str, Value] = field(repr=False)
    static: Mapping[str, str] = field(default_factory=dict, repr=False)
    origins: Mapping[str, str] = field(default_factory=dict)
    given: Mapping[str, str] = field(default_factory=dict, repr=False)
    dynamic_broker: Mapping[str, str] = field(default_factory=dict, repr=False)
    dynamic_default: Mapping[str, str] = field(default_factory=dict, repr=False)
    resolve: Callable[[Mapping[str, str]], Mapping[str, str]] | None = field(default=None, repr=False)
    """Puts values in the place of variables in dynamic ones (`config.providers`). Raises ConfigurationError."""

    @classmethod
    def of(cls, static: Mapping[str, str] = _EMPTY, origins: Mapping[str, str] = _EMPTY) -> BrokerConfig:
        """Parse `static`. Raises ConfigurationError with every wrong value; unknown names stay unparsed."""
        static = _with_defaults(_with_node_id(static))
        given = MappingProxyType(dict(static))
        return cls(_parse_all(static, origins), given, MappingProxyType(dict(origins)), given)

    def with_dynamic(self, per_broker: Mapping[str, str], cluster_default: Mapping[str, str]) -> BrokerConfig:
        """The static configuration with these dynamic ones replacing any earlier ones. Raises ConfigurationError."""
        layers = dict(self.static)
        for overrides in (cluster_default, per_broker):
            for name, value in self._resolved(overrides).items():
                for other in names_of(name):
                    layers.pop(other, None)
                layers[name] = value
        return replace(
            self,
            values=_parse_all(layers, self.origins),
            given=MappingProxyType(layers),
            dynamic_broker=MappingProxyType(dict(per_broker)),
            dynamic_default=MappingProxyType(dict(cluster_default)),
        )

    def _resolved(self, overrides: Mapping[str, str]) -> Mapping[str, str]:
        """The dynamic values, without those that name a value which this node does not have (any more)."""
        if self.resolve is None:
            return overrides
        values: dict[str, str] = {}
        for name, text in overrides.items():
            try:
                values |= self.resolve({name: text})
            except ConfigurationError as error:
                logger.warning("a dynamic configuration is left out", error=str(error))
        return values

    def integer(self, name: str) -> int:
        value = self.values[name]
        assert isinstance(value, int)
        return value

    def boolean(self, name: str) -> bool:
        value = self.values[name]
        assert isinstance(value, bool)
        return value

    def double(self, name: str) -> float:
        value = self.values[name]
        assert isinstance(value, float)
        return value

    def string(self, name: str) -> str:
        """The value as a text; a list's entries have commas between them."""
        value = self.values[name]
        if isinstance(value, tuple):
            return ",".join(value)
        assert isinstance(value, str)
        return value

    def optional_string(self, name: str) -> str | None:
        return None if self.values[name] is None else self.string(name)

    def list_(self, name: str) -> tuple[str, ...]:
        value = self.values[name]
        assert isinstance(value, tuple)
        return value

    @property
    def node_id(self) -> int:
        return self.integer("node.id")

    @property
    def is_in_cluster(self) -> bool:
        """Whether this node is a broker whose controllers are other nodes."""
        return _is_in_cluster(self.static)

    @property
    def is_broker(self) -> bool:
        """Whether this node is a broker, perhaps a controller too; a controller alone has no partitions."""
        return set(self.list_("process.roles")) != {"controller"}

    @property
    def syncs(self) -> bool:
        """Whether files are synced to the device: if `odradek.fsync` says so, or if flushes are asked for."""
        asked = {"log.flush.interval.messages", "log.flush.interval.ms"} & self.given.keys()
        return self.boolean("odradek.fsync") or bool(asked)

    @property
    def log_dirs(self) -> tuple[str, ...]:
        """The folders of `log.dirs`, else the one of `log.dir`."""
        several = self.optional_string("log.dirs")
        return split_list(self.string("log.dir") if several is None else several)

    @property
    def cordoned_log_dirs(self) -> frozenset[str]:
        """The absolute paths of the folders that get no new partitions."""
        named = self.list_("cordoned.log.dirs")
        return frozenset(os.path.abspath(path) for path in (self.log_dirs if named == ("*",) else named))

    def topic_default(self, name: str) -> Value:
        """The broker's default for the topic configuration `name`: the first synonym that is set, in the topic's unit.

        As in `KafkaConfig`: a negative retention time is -1, no limit.
        """
        definition = TOPIC_CONFIGS[name]
        for synonym in definition.synonyms:
            value = self.values[synonym.name]
            if value is None:
                continue
            if name == "retention.ms":
                assert isinstance(value, int)
                return value * synonym.factor if value >= 0 else -1
            return value * synonym.factor if synonym.factor != 1 and isinstance(value, int) else value
        return definition.default

    @property
    def max_connections_per_ip_overrides(self) -> dict[str, int]:
        """`host:count` pairs. Raises ValueError for another shape."""
        overrides: dict[str, int] = {}
        for host, text in named_values(self.string("max.connections.per.ip.overrides")).items():
            count = parse_integer(text, 32)
            if count is None:
                raise ValueError(f"{text!r} is no number")
            overrides[host] = count
        return overrides


class CurrentConfig:
    """The one place that has a node's configuration as it is now, and makes it of the image when that changes."""

    __slots__ = ("config",)

    def __init__(self, config: BrokerConfig) -> None:
        self.config = config

    def follow(self, image: MetadataImage) -> None:
        """Apply what the image has for this broker, and for the whole cluster."""
        of = image.configs.of
        own, of_all = (
            of(ResourceType.BROKER, str(self.config.node_id)),
            of(ResourceType.BROKER, CLUSTER_DEFAULT),
        )
        self.config = self.config.with_dynamic(own, of_all)


def split_list(text: str) -> tuple[str, ...]:
    """The parts between commas, stripped of spaces, without empty ones."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def named_values(text: str) -> dict[str, str]:
    """The `name:value` pairs that `text` lists (Kafka's `Csv.parseCsvMap`). Raises ValueError if a colon is missing."""
    parts = re.split(r"(?a:\s*,\s*)", text)
    while parts and not parts[-1]:
        parts.pop()
    for part in parts:
        if ":" not in part:
            raise ValueError(f"{part!r} has no colon")
    pairs = (part.rpartition(":") for part in parts)
    return {name.strip(): value.strip() for name, _, value in pairs}


def _with_node_id(static: Mapping[str, str]) -> dict[str, str]:
    """The configuration with `broker.id` and `node.id` standing for one another (`KafkaConfig.populateSynonyms`)."""
    filled = dict(static)
    if "broker.id" in filled and "node.id" not in filled and filled["broker.id"].strip() != "-1":
        filled["node.id"] = filled["broker.id"]
    elif "node.id" in filled and "broker.id" not in filled:
        filled["broker.id"] = filled["node.id"]
    return filled


def _is_in_cluster(static: Mapping[str, str]) -> bool:
    controllers = (static.get(f"controller.quorum.{key}", "") for key in ("bootstrap.servers", "voters"))
    return set(split_list(static.get("process.roles", ""))) == {"broker"} and any(map(split_list, controllers))


def _with_defaults(static: dict[str, str]) -> dict[str, str]:
    return {**DEFAULTS_IN_A_CLUSTER, **static} if _is_in_cluster(static) else static


def _parse_all(given: Mapping[str, str], origins: Mapping[str, str]) -> Mapping[str, Value]:
    values: dict[str, Value] = {name: definition.default for name, definition in BROKER_CONFIGS.items()}
    problems: list[str] = []
    for name, text in given.items():
        checked = KNOWN_CONFIGS.get(name)
        if checked is None or (name in NOT_NEEDED and checked.type is ConfigType.CLASS):
            continue  # a class of Java's is looked at by the rules that involve several settings
        try:
            value = checked.parse(text)
        except InvalidValueError:
            where = f" (from {origins[name]})" if name in origins else ""
            shown = "[hidden]" if checked.sensitive else repr(text)
            problems.append(f"{name} = {shown}{where}: expected {checked.expected}")
        else:
            if name in values:
                values[name] = value
    if problems:
        raise ConfigurationError(problems)
    return MappingProxyType(values)
