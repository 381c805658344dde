"""Configurations of single topics and groups, over the defaults of the broker.

These are Kafka's `LogConfig` and `GroupConfig`, with its texts of what is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from broker.config.broker_config import BrokerConfig
from broker.config.definition import (
    Check,
    ConfigDef,
    ConfigRow,
    InvalidValueError,
    UpdateMode,
    Value,
    at_least,
    boolean,
    integer,
    integer_of,
    long,
    one_of,
    string,
)
from broker.config.defs import KNOWN_CONFIGS, TOPIC_CONFIGS
from broker.config.defs.topics import OF_SCHEMAS
from metadata.topic_names import NEVER_TIERED
from protocol.errors import InvalidConfiguration
from storage.append_types import LogConfig


def parse_topic_configs(
    broker_config: BrokerConfig, overrides: Mapping[str, str | None], *, was_tiered: bool = False
) -> dict[str, Value]:
    """As `topic_values`, for creating or altering a topic: wrong combinations raise InvalidConfiguration too."""
    values = topic_values(broker_config, overrides)
    low, high = integer_of(values, "min.compaction.lag.ms"), integer_of(values, "max.compaction.lag.ms")
    if low > high:
        raise InvalidConfiguration(
            f"conflict topic config setting min.compaction.lag.ms ({low}) > max.compaction.lag.ms ({high})"
        )
    is_tiered = values["remote.storage.enable"]
    if is_tiered or was_tiered:
        from broker.config.tier_checks import check_switched_off, check_tiered

        if is_tiered:
            check_tiered(values, system_enabled=broker_config.boolean("remote.log.storage.system.enable"))
        else:
            check_switched_off(values)
    return values


def topic_values(
    broker_config: BrokerConfig, overrides: Mapping[str, str | None], *, check_inherited: bool = True
) -> dict[str, Value]:
    """Every topic configuration's value, in order of definition: the overrides over the broker's defaults.

    Raises InvalidConfiguration, with Kafka's texts, for an unknown name and for a null or wrong value. A value that a
    broker may have can be wrong for a topic: a negative `log.flush.interval.ms`.
    """
    nulls = [name for name, value in overrides.items() if value is None]
    if nulls:
        raise InvalidConfiguration(f"Null value not supported for topic configs: {','.join(nulls)}")
    for name in overrides:
        if name not in TOPIC_CONFIGS:
            raise InvalidConfiguration(f"Unknown topic config name: {name}")
    values: dict[str, Value] = {}
    for name, definition in TOPIC_CONFIGS.items():
        text = overrides.get(name)
        try:
            if text is not None:
                values[name] = definition.parse(text)
                continue
            values[name] = broker_config.topic_default(name)
            if check_inherited and values[name] is not None:
                definition.validate(values[name])
        except InvalidValueError as error:
            raise InvalidConfiguration(str(error)) from error
    return values


def known_topic_configs(configs: Mapping[str, str | None]) -> dict[str, str | None]:
    """Those that this release knows: what another release has left in the metadata counts for nothing, as in Kafka."""
    return {name: text for name, text in configs.items() if name in TOPIC_CONFIGS}


def topic_value(configs: Mapping[str, str], name: str) -> Value:
    """The value of a configuration for a topic that has these in the metadata; no broker's setting is its default.

    The metadata has each as it was written: `TRUE` is true.
    """
    definition = TOPIC_CONFIGS[name]
    return definition.parse(configs[name]) if name in configs else definition.default


def log_config(broker_config: BrokerConfig, topic: str, overrides: Mapping[str, str | None]) -> LogConfig:
    """The configuration of a topic's logs, with these in the metadata. Raises InvalidConfiguration."""
    values = topic_values(broker_config, known_topic_configs(overrides), check_inherited=False)
    policies = values["cleanup.policy"]
    ratio = values["min.cleanable.dirty.ratio"]
    assert isinstance(policies, tuple)
    assert isinstance(ratio, float)
    own_size = values["internal.segment.bytes"]
    return LogConfig(
        segment_bytes=own_size if isinstance(own_size, int) else integer_of(values, "segment.bytes"),
        segment_ms=integer_of(values, "segment.ms"),
        segment_jitter_ms=integer_of(values, "segment.jitter.ms"),
        segment_index_bytes=integer_of(values, "segment.index.bytes"),
        index_interval_bytes=integer_of(values, "index.interval.bytes"),
        max_message_bytes=integer_of(values, "max.message.bytes"),
        max_decompressed_message_bytes=integer_of(values, "max.decompressed.message.bytes"),
        message_timestamp_type=str(values["message.timestamp.type"]),
        message_timestamp_before_max_ms=integer_of(values, "message.timestamp.before.max.ms"),
        message_timestamp_after_max_ms=integer_of(values, "message.timestamp.after.max.ms"),
        compression_type=str(values["compression.type"]),
        compression_gzip_level=integer_of(values, "compression.gzip.level"),
        compression_lz4_level=integer_of(values, "compression.lz4.level"),
        compression_zstd_level=integer_of(values, "compression.zstd.level"),
        compact="compact" in policies,
        delete="delete" in policies,
        flush_messages=integer_of(values, "flush.messages"),
        flush_ms=integer_of(values, "flush.ms"),
        retention_ms=integer_of(values, "retention.ms"),
        retention_bytes=integer_of(values, "retention.bytes"),
        file_delete_delay_ms=integer_of(values, "file.delete.delay.ms"),
        delete_retention_ms=integer_of(values, "delete.retention.ms"),
        min_compaction_lag_ms=integer_of(values, "min.compaction.lag.ms"),
        max_compaction_lag_ms=integer_of(values, "max.compaction.lag.ms"),
        min_cleanable_dirty_ratio=ratio,
        min_insync_replicas=integer_of(values, "min.insync.replicas"),
        remote_storage=bool(values["remote.storage.enable"]) and topic not in NEVER_TIERED,
        remote_copy_disable=bool(values["remote.log.copy.disable"]),
        remote_copy_lag_ms=integer_of(values, "remote.copy.lag.ms"),
        remote_copy_lag_bytes=integer_of(values, "remote.copy.lag.bytes"),
        local_retention_ms=integer_of(values, "local.retention.ms"),
        local_retention_bytes=integer_of(values, "local.retention.bytes"),
        validates_schemas=any(values[f"confluent.{side}.schema.validation"] for side in ("key", "value")),
    )


def check_schema_validation(broker_config: BrokerConfig, names: Iterable[str]) -> None:
    """Check names that a topic is given anew. Raises InvalidConfiguration for those that need a schema registry."""
    unknown = [name for name in names if name in OF_SCHEMAS]
    if unknown and not (broker_config.list_("schema.registry.listeners") or broker_config.string("odradek.control")):
        raise InvalidConfiguration(
            f"Unknown topic config name: {min(unknown)}. It needs a schema registry: set schema.registry.listeners"
        )


_TAGS = "streams.rack.aware.assignment.tags"
_DEAD_LETTERS = "errors.deadletterqueue.topic.name"
_DURATION = re.compile(
    r"(?i)P(?=[0-9T])(?:([0-9]+)D)?(?:T(?=[0-9])(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+(?:\.[0-9]{0,9})?)S)?)?"
)
_UNITS_MS = (86_400_000, 3_600_000, 60_000, 1000)


def duration_ms(text: str) -> int:
    """An ISO 8601 duration of days, hours, minutes and seconds, in ms."""
    match = _DURATION.fullmatch(text)
    assert match is not None, "the configuration was checked when it was set"
    return int(sum(float(number or 0) * unit_ms for number, unit_ms in zip(match.groups(), _UNITS_MS, strict=True)))


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

_GROUPS: Mapping[str, ConfigRow | Check | None] = {
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


def _group_config(name: str, row: ConfigRow | Check | None) -> ConfigDef:
    if isinstance(row, ConfigRow):
        return row.named(name)
    of_broker = KNOWN_CONFIGS[f"group.{name}"]
    return replace(of_broker, name=name, check=row or of_broker.check, mode=UpdateMode.READ_ONLY)


GROUP_CONFIGS: Mapping[str, ConfigDef] = MappingProxyType(
    {name: _group_config(name, row) for name, row in _GROUPS.items()}
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
    values = parsed(group_configs(broker_config), overrides)
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
    values = parsed(group_configs(broker_config), known)
    limited = [name for name in _LIMITED if name in known]
    return values | {name: within_limits(broker_config, name, integer_of(values, name)) for name in limited}


def within_limits(broker_config: BrokerConfig, name: str, value: int) -> int:
    """Return the number that holds for a group's own: the broker may have narrower limits than when it was set."""
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


def parsed(definitions: Mapping[str, ConfigDef], overrides: Mapping[str, str]) -> dict[str, Value]:
    """The value of each definition, parsed or its default. Raises InvalidConfiguration."""
    try:
        return {
            name: definition.parse(overrides[name]) if name in overrides else definition.default
            for name, definition in definitions.items()
        }
    except InvalidValueError as error:
        raise InvalidConfiguration(str(error)) from error
