"""A topic's own configuration over the broker's defaults (Kafka's `LogConfig`)."""

from __future__ import annotations

from collections.abc import Mapping

from broker.config.broker_config import BrokerConfig
from broker.config.definition import InvalidValueError, Value, integer_of
from broker.config.defs import TOPIC_CONFIGS
from protocol.errors import InvalidConfiguration
from storage.append_types import LogConfig


def parse_topic_configs(broker_config: BrokerConfig, overrides: Mapping[str, str | None]) -> dict[str, Value]:
    """As `topic_values`, for creating or altering a topic: wrong combinations raise InvalidConfiguration too."""
    values = topic_values(broker_config, overrides)
    _check_together(values)
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


def _check_together(values: Mapping[str, Value]) -> None:
    low, high = integer_of(values, "min.compaction.lag.ms"), integer_of(values, "max.compaction.lag.ms")
    if low > high:
        raise InvalidConfiguration(
            f"conflict topic config setting min.compaction.lag.ms ({low}) > max.compaction.lag.ms ({high})"
        )
    if values["remote.storage.enable"]:
        raise InvalidConfiguration(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )


def known_topic_configs(configs: Mapping[str, str | None]) -> dict[str, str | None]:
    """Those that this release knows: what another release has left in the metadata counts for nothing, as in Kafka."""
    return {name: text for name, text in configs.items() if name in TOPIC_CONFIGS}


def log_config(broker_config: BrokerConfig, overrides: Mapping[str, str | None]) -> LogConfig:
    """The log's configuration for a topic that has these in the metadata. Raises InvalidConfiguration."""
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
    )
