"""Configurations of groups and of client metrics subscriptions (Kafka's `GroupConfig` and `ClientMetricsConfigs`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from broker.config.broker_config import BrokerConfig
from broker.config.definition import (
    Check,
    ConfigDef,
    InvalidValueError,
    Row,
    UpdateMode,
    Value,
    at_least,
    boolean,
    entries,
    integer,
    integer_of,
    long,
    one_of,
    string,
)
from broker.config.defs import KNOWN_CONFIGS
from broker.config.java_patterns import JavaPatternError, compile_java
from protocol.errors import InvalidConfiguration, InvalidRequest

_TAGS = "streams.rack.aware.assignment.tags"
_DEAD_LETTERS = "errors.deadletterqueue.topic.name"
_DURATION = re.compile(r"(?i)P(?=[0-9T])([0-9]+D)?(T(?=[0-9])([0-9]+H)?([0-9]+M)?([0-9]+(\.[0-9]{0,9})?S)?)?")


def _refuse_offset_reset(value: Value) -> tuple[object, str] | None:
    text = str(value)
    kind, _, duration = text.partition(":")
    if text in {"earliest", "latest"} or (kind == "by_duration" and _DURATION.fullmatch(duration)):
        return None
    return value, (
        f"Invalid value `{text}` for configuration share.auto.offset.reset. The value must be either 'earliest', "
        "'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
    )


BROKERS_NAMES: Mapping[str, str] = MappingProxyType({"streams.assignor.name": "group.streams.assignors"})
"""The broker's configurations that give the defaults, where it is not the same name behind `group.`."""

_GROUPS: Mapping[str, Row | Check | None] = {
    "consumer.session.timeout.ms": None,
    "consumer.heartbeat.interval.ms": None,
    "consumer.assignment.interval.ms": None,
    "share.session.timeout.ms": None,
    "share.heartbeat.interval.ms": None,
    "share.record.lock.duration.ms": at_least(1000),
    "share.auto.offset.reset": string(
        "latest",
        "Where a share group starts: earliest, latest, or by_duration:<ISO 8601 duration>.",
        Check(_refuse_offset_reset, "earliest, latest or by_duration:<ISO 8601 duration>"),
    ),
    "share.isolation.level": string(
        "read_uncommitted",
        "Whether a share group sees records of open and aborted transactions.",
        one_of("read_committed", "read_uncommitted"),
    ),
    "share.delivery.count.limit": at_least(2),
    "share.partition.max.record.locks": at_least(100),
    "share.renew.acknowledge.enable": boolean(True, "Whether share consumers may renew their locks (KIP-1222)."),
    "share.assignment.interval.ms": None,
    _DEAD_LETTERS: string("", "Where records go that a share group gives up (KIP-1191); empty: nowhere."),
    "errors.deadletterqueue.copy.record.enable": boolean(
        False, "Whether a dead letter has the record's key and value."
    ),
    "streams.session.timeout.ms": None,
    "streams.heartbeat.interval.ms": None,
    "streams.num.standby.replicas": None,
    "streams.assignment.interval.ms": None,
    "streams.assignor.name": string("sticky", "The assignor of the group.", one_of("sticky")),
    "streams.initial.rebalance.delay.ms": None,
    **{
        f"{kind}.assignor.offload.enable": boolean(True, "Internal to Kafka.", internal=True, has_effect=False)
        for kind in ("consumer", "share", "streams")
    },
    "streams.task.offset.interval.ms": integer(
        60_000, "How often members report offsets of tasks.", at_least(1), internal=True
    ),
    "streams.num.warmup.replicas": integer(2, "Internal to Kafka.", at_least(0), internal=True, has_effect=False),
    "streams.acceptable.recovery.lag": long(10_000, "Told to the members.", at_least(0), internal=True),
    _TAGS: None,
}
"""A rule stands for the row of the broker's configuration of that name behind `group.`, with this rule instead of its
own; None for that row as it is. Internal ones may be set, and are described only then."""


def _group_config(name: str, row: Row | Check | None) -> ConfigDef:
    if isinstance(row, Row):
        return row.named(name)
    of_broker = KNOWN_CONFIGS[f"group.{name}"]
    return replace(of_broker, name=name, check=row or of_broker.check, mode=UpdateMode.READ_ONLY)


GROUP_CONFIGS: Mapping[str, ConfigDef] = MappingProxyType(
    {name: _group_config(name, row) for name, row in _GROUPS.items()}
)

CLIENT_METRICS_CONFIGS: Mapping[str, ConfigDef] = MappingProxyType(
    {
        name: row.named(name)
        for name, row in {
            "interval.ms": integer(300_000, "Time between two pushes of a client's metrics."),
            "match": entries((), "Which clients: attribute=regular expression, all of which must match."),
            "metrics": entries((), "Prefixes of the names of metrics that are asked for, or *."),
        }.items()
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
    return found if found in KNOWN_CONFIGS else None


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
