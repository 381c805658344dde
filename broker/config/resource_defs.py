"""Configurations of groups and of client metrics subscriptions (Kafka's `GroupConfig` and `ClientMetricsConfigs`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from broker.config.broker_config import BrokerConfig
from broker.config.definition import Check as ValueCheck
from broker.config.definition import ConfigDef, ConfigType, InvalidValueError, Value, at_least, integer_of, one_of
from broker.config.defs import BROKER_CONFIGS
from broker.config.defs.not_needed import NOT_NEEDED
from broker.config.java_patterns import JavaPatternError, compile_java
from protocol.errors import InvalidConfiguration, InvalidRequest

_INT, _LIST, _STRING = ConfigType.INT, ConfigType.LIST, ConfigType.STRING

_TAGS = "streams.rack.aware.assignment.tags"
_DEAD_LETTERS = "errors.deadletterqueue.topic.name"
_NO_EFFECT = "Internal to Kafka. No effect here."
_DURATION = re.compile(
    r"(?i)P(?=[0-9T])(?:([0-9]+)D)?(?:T(?=[0-9])(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+(?:\.[0-9]{0,9})?)S)?)?"
)
_UNITS_MS = (86_400_000, 3_600_000, 60_000, 1000)


def _refuse_offset_reset(value: Value) -> tuple[object, str] | None:
    text = str(value)
    kind, _, duration = text.partition(":")
    if text in {"earliest", "latest"} or (kind == "by_duration" and _DURATION.fullmatch(duration)):
        return None
    return value, (
        f"Invalid value `{text}` for configuration share.auto.offset.reset. The value must be either 'earliest', "
        "'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
    )


def duration_ms(text: str) -> int:
    """An ISO 8601 duration of days, hours, minutes and seconds, in ms."""
    found = _DURATION.fullmatch(text)
    assert found is not None, "the configuration was checked when it was set"
    return int(sum(float(number or 0) * unit_ms for number, unit_ms in zip(found.groups(), _UNITS_MS, strict=True)))


def _interval(name: str, default: int, doc: str) -> ConfigDef:
    return ConfigDef(name, _INT, default, doc, at_least(1), "ms")


def _assignment_interval(kind: str) -> ConfigDef:
    doc = f"Least time between two assignments of a {kind} group."
    return ConfigDef(f"{kind}.assignment.interval.ms", _INT, 1_000, doc, at_least(0), "ms")


def _internal(name: str, kind: ConfigType, default: Value, doc: str) -> ConfigDef:
    """One that may be set, and is described only then."""
    check = at_least(1 if name.endswith("interval.ms") else 0) if kind is not ConfigType.BOOLEAN else None
    return ConfigDef(name, kind, default, doc, check, internal=True)


BROKERS_NAMES: Mapping[str, str] = MappingProxyType({"streams.assignor.name": "group.streams.assignors"})
"""The broker's configurations that give the defaults, where it is not the same name behind `group.`."""

GROUP_CONFIGS: Mapping[str, ConfigDef] = MappingProxyType(
    {
        definition.name: definition
        for definition in (
            _interval("consumer.session.timeout.ms", 45_000, "Time without a heartbeat before a consumer is removed."),
            _interval("consumer.heartbeat.interval.ms", 5_000, "Time between heartbeats, sent to the consumers."),
            _assignment_interval("consumer"),
            _interval(
                "share.session.timeout.ms", 45_000, "Time without a heartbeat before a share consumer is removed."
            ),
            _interval("share.heartbeat.interval.ms", 5_000, "Time between heartbeats, sent to the share consumers."),
            ConfigDef(
                "share.record.lock.duration.ms",
                _INT,
                30_000,
                "Time for which a share consumer holds the records it fetched.",
                at_least(1000),
                "ms",
            ),
            ConfigDef(
                "share.auto.offset.reset",
                _STRING,
                "latest",
                "Where a share group starts: earliest, latest, or by_duration:<ISO 8601 duration>.",
                ValueCheck(_refuse_offset_reset, "earliest, latest or by_duration:<ISO 8601 duration>"),
            ),
            ConfigDef(
                "share.isolation.level",
                _STRING,
                "read_uncommitted",
                "Whether a share group sees records of open and aborted transactions.",
                one_of("read_committed", "read_uncommitted"),
            ),
            ConfigDef(
                "share.delivery.count.limit",
                _INT,
                5,
                "How often a record is delivered before it is given up.",
                at_least(2),
                "deliveries",
            ),
            ConfigDef(
                "share.partition.max.record.locks",
                _INT,
                2000,
                "Most records of a partition that are in flight at once.",
                at_least(100),
                "records",
            ),
            ConfigDef(
                "share.renew.acknowledge.enable",
                ConfigType.BOOLEAN,
                True,
                "Whether share consumers may renew their locks (KIP-1222).",
            ),
            _assignment_interval("share"),
            ConfigDef(
                _DEAD_LETTERS,
                _STRING,
                "",
                "Where records go that a share group gives up (KIP-1191); empty: nowhere.",
            ),
            ConfigDef(
                "errors.deadletterqueue.copy.record.enable",
                ConfigType.BOOLEAN,
                False,
                "Whether a dead letter has the record's key and value.",
            ),
            _interval("streams.session.timeout.ms", 45_000, "Time without a heartbeat before a member is removed."),
            _interval("streams.heartbeat.interval.ms", 5_000, "Time between heartbeats, sent to the members."),
            ConfigDef("streams.num.standby.replicas", _INT, 0, "Standby replicas of each task.", at_least(0)),
            _assignment_interval("streams"),
            ConfigDef("streams.assignor.name", _STRING, "sticky", "The assignor of the group.", one_of("sticky")),
            ConfigDef(
                "streams.initial.rebalance.delay.ms",
                _INT,
                3_000,
                "Wait for more members before the first assignment of an empty group.",
                at_least(0),
                "ms",
            ),
            _internal("consumer.assignor.offload.enable", ConfigType.BOOLEAN, True, _NO_EFFECT),
            _internal("share.assignor.offload.enable", ConfigType.BOOLEAN, True, _NO_EFFECT),
            _internal("streams.assignor.offload.enable", ConfigType.BOOLEAN, True, _NO_EFFECT),
            _internal("streams.task.offset.interval.ms", _INT, 60_000, "How often members report offsets of tasks."),
            _internal("streams.num.warmup.replicas", _INT, 2, _NO_EFFECT),
            _internal("streams.acceptable.recovery.lag", ConfigType.LONG, 10_000, "Told to the members."),
            ConfigDef(
                _TAGS,
                _LIST,
                (),
                "Client tags that the members of the group must have.",
            ),
        )
    }
)

CLIENT_METRICS_CONFIGS: Mapping[str, ConfigDef] = MappingProxyType(
    {
        definition.name: definition
        for definition in (
            ConfigDef("interval.ms", _INT, 300_000, "Time between two pushes of a client's metrics.", unit="ms"),
            ConfigDef("match", _LIST, (), "Which clients: attribute=regular expression, all of which must match."),
            ConfigDef("metrics", _LIST, (), "Prefixes of the names of metrics that are asked for, or *."),
        )
    }
)

MATCH_ATTRIBUTES = frozenset(
    {
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)

_KINDS = ("consumer", "share", "streams")
_LIMITED = tuple(
    f"{kind}.{name}"
    for kind in _KINDS
    for name in (
        "heartbeat.interval.ms",
        "session.timeout.ms",
        "assignment.interval.ms",
        "record.lock.duration.ms",
        "delivery.count.limit",
        "partition.max.record.locks",
        "num.standby.replicas",
        "task.offset.interval.ms",
        "num.warmup.replicas",
    )
    if f"{kind}.{name}" in GROUP_CONFIGS
)
_FIXED_LIMITS: Mapping[str, int] = MappingProxyType(
    {"group.streams.min.task.offset.interval.ms": 15_000, "group.streams.max.warmup.replicas": 20}
)
"""Limits that are Kafka's defaults: the configurations of brokers that would change them have no effect here."""
_RESERVED = "__"


def brokers_name(name: str) -> str | None:
    """The broker's configuration that gives the default of a group's; None if there is none."""
    found = BROKERS_NAMES.get(name, f"group.{name}")
    return found if found in BROKER_CONFIGS or found in NOT_NEEDED else None


def group_configs(broker_config: BrokerConfig) -> dict[str, ConfigDef]:
    """`GROUP_CONFIGS` with the broker's values as defaults (`GroupConfigManager`), where it offers the groups."""
    return {
        name: replace(definition, default=broker_config.values.get(f"group.{name}", definition.default))
        for name, definition in GROUP_CONFIGS.items()
    }


def parse_group_configs(broker_config: BrokerConfig, overrides: Mapping[str, str]) -> dict[str, Value]:
    """Every group configuration's value under these overrides. Raises InvalidConfiguration with Kafka's texts."""
    for name in overrides:
        if name not in GROUP_CONFIGS:
            raise InvalidConfiguration(f"Unknown group config name: {name}")
    values = _parsed(group_configs(broker_config), overrides)
    for name in _LIMITED:
        if name in overrides:
            _check_limits(broker_config, name, integer_of(values, name))
    for kind in _KINDS:
        timeout, interval = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if integer_of(values, timeout) <= integer_of(values, interval):
            raise InvalidConfiguration(f"{timeout} must be greater than {interval}")
    _check_tags(values[_TAGS])
    if str(values[_DEAD_LETTERS]).startswith(_RESERVED):
        raise InvalidConfiguration(f"{_DEAD_LETTERS}: DLQ topic name must not start with '{_RESERVED}'")
    return values


def _check_tags(tags: Value) -> None:
    assert isinstance(tags, tuple)
    if len(set(tags)) < len(tags):
        raise InvalidConfiguration(f"{_TAGS} must not contain duplicate tag keys.")


def effective_group_configs(broker_config: BrokerConfig, overrides: Mapping[str, str]) -> dict[str, Value]:
    """Every group configuration's value that counts under overrides that were checked when they were set."""
    known = {name: text for name, text in overrides.items() if name in GROUP_CONFIGS}
    values = _parsed(group_configs(broker_config), known)
    limited = [name for name in _LIMITED if name in known]
    return values | {name: within_limits(broker_config, name, integer_of(values, name)) for name in limited}


def within_limits(broker_config: BrokerConfig, name: str, value: int) -> int:
    """What a group's own number counts as: the broker may have narrower limits than when it was set."""
    if name not in _LIMITED:
        return value
    low, high = _limits(broker_config, name)
    if low.value is not None:
        value = max(value, low.value)
    return value if high.value is None else min(value, high.value)


def _check_limits(broker_config: BrokerConfig, name: str, value: int) -> None:
    low, high = _limits(broker_config, name)
    if low.value is not None and value < low.value:
        raise InvalidConfiguration(f"{name} must be greater than or equal to {low.shown}")
    if high.value is not None and value > high.value:
        raise InvalidConfiguration(f"{name} must be less than or equal to {high.shown}")


class _Limit(NamedTuple):
    shown: str
    value: int | None


def _limits(broker_config: BrokerConfig, name: str) -> tuple[_Limit, _Limit]:
    """The least and the greatest value."""
    kind, _, rest = name.partition(".")
    low, high = f"group.{kind}.min.{rest}", f"group.{kind}.max.{rest.removeprefix('num.')}"
    return _limit(broker_config, low), _limit(broker_config, high)


def _limit(broker_config: BrokerConfig, name: str) -> _Limit:
    if name in broker_config.values:
        return _Limit(name, broker_config.integer(name))
    fixed = _FIXED_LIMITS.get(name)
    return _Limit(str(fixed), fixed)


def effective_client_metrics_configs(configs: Mapping[str, str]) -> dict[str, Value]:
    """Every subscription configuration's value that counts under those in the metadata."""
    return _parsed(CLIENT_METRICS_CONFIGS, {name: configs[name] for name in CLIENT_METRICS_CONFIGS if name in configs})


def parse_client_metrics_configs(overrides: Mapping[str, str]) -> dict[str, Value]:
    """Every subscription configuration's value. Raises InvalidRequest and InvalidConfiguration as Kafka does."""
    for name in overrides:
        if name not in CLIENT_METRICS_CONFIGS:
            raise InvalidRequest(f"Unknown client metrics configuration: {name}")
    values = _parsed(CLIENT_METRICS_CONFIGS, overrides)
    interval = integer_of(values, "interval.ms")
    if not 100 <= interval <= 3_600_000:
        raise InvalidRequest(
            f"Invalid value {interval} for interval.ms, interval must be between 100 and 3600000 (1 hour)"
        )
    parse_match(values["match"])
    return values


def parse_match(patterns: Value) -> dict[str, re.Pattern[str]]:
    """The `match` list by attribute. Raises InvalidConfiguration."""
    assert isinstance(patterns, tuple)
    matches: dict[str, re.Pattern[str]] = {}
    for pattern in patterns:
        attribute, _, expression = pattern.partition("=")
        attribute, expression = attribute.strip(), expression.strip()
        try:
            if attribute not in MATCH_ATTRIBUTES or not expression or "=" in expression:
                raise InvalidConfiguration(f"Illegal client matching pattern: {pattern}")
            matches[attribute] = compile_java(expression)
        except JavaPatternError as error:
            raise InvalidConfiguration(f"Illegal client matching pattern: {pattern}: {error}") from error
    return matches


def _parsed(definitions: Mapping[str, ConfigDef], overrides: Mapping[str, str]) -> dict[str, Value]:
    try:
        return {
            name: definition.parse(overrides[name]) if name in overrides else definition.default
            for name, definition in definitions.items()
        }
    except InvalidValueError as error:
        raise InvalidConfiguration(str(error)) from error
