"""Topic configurations: Kafka's refusals word for word, and what the log is given."""

from __future__ import annotations

import pytest

from broker.config.broker_config import BrokerConfig
from broker.config.resource_configs import log_config, parse_topic_configs
from broker.config.sources import load
from protocol.errors import InvalidConfiguration
from storage.append_types import LogConfig
from tests.unit.broker.config.loading import load_text

CONFIG = load().config
THROTTLED = "leader.replication.throttled.replicas"


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"nope": "1"}, "Unknown topic config name: nope"),
        ({"segment.bytes": "abc", "nope": "1"}, "Unknown topic config name: nope"),
        ({"retention.ms": None, "a.b": None}, "Null value not supported for topic configs: retention.ms,a.b"),
        ({"retention.ms": "abc"}, "Invalid value abc for configuration retention.ms: Not a number of type LONG"),
        ({"retention.ms": "-2"}, "Invalid value -2 for configuration retention.ms: Value must be at least -1"),
        (
            {"cleanup.policy": "compact,foo"},
            "Invalid value foo for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        (
            {"compression.type": "GZIP"},
            "Invalid value GZIP for configuration compression.type: "
            "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer",
        ),
        (
            {"compression.gzip.level": "0"},
            "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1",
        ),
        (
            {"compression.zstd.level": "99"},
            "Invalid value 99 for configuration compression.zstd.level: Value must be no more than 22",
        ),
        (
            {"min.cleanable.dirty.ratio": "2"},
            "Invalid value 2.0 for configuration min.cleanable.dirty.ratio: Value must be no more than 1",
        ),
        (
            {"preallocate": "yes"},
            "Invalid value yes for configuration preallocate: Expected value to be either true or false",
        ),
        (
            {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"},
            "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)",
        ),
        (
            {"remote.storage.enable": "true"},
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage.",
        ),
        (
            {THROTTLED: "*,1:1"},
            f"Invalid value [*, 1:1] for configuration {THROTTLED}: {THROTTLED} must be the literal '*' or a list "
            "of replicas in the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],...",
        ),
        (
            {THROTTLED: "wrong,x"},
            f"Invalid value [wrong, x] for configuration {THROTTLED}: {THROTTLED} must be the literal '*' or a list "
            "of replicas in the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],...",
        ),
    ],
)
def test_refusals(overrides: dict[str, str | None], message: str) -> None:
    with pytest.raises(InvalidConfiguration) as raised:
        parse_topic_configs(CONFIG, overrides)
    assert raised.value.message == message


@pytest.mark.parametrize(
    "overrides",
    [
        {"cleanup.policy": ""},
        {"cleanup.policy": "compact,compact"},
        {"segment.bytes": " +2000000 "},
        {THROTTLED: "*"},
        {THROTTLED: "1:2,3:4"},
        {"retention.bytes": "-5"},
        {"remote.log.copy.disable": "true"},
        {"internal.segment.bytes": "1"},
    ],
)
def test_what_kafka_takes(overrides: dict[str, str | None]) -> None:
    assert parse_topic_configs(CONFIG, overrides)


def test_a_topic_checks_its_own_values_against_the_brokers() -> None:
    config = load_text("log.cleaner.max.compaction.lag.ms=5").config
    with pytest.raises(InvalidConfiguration, match="conflict"):
        parse_topic_configs(config, {"min.compaction.lag.ms": "6"})


def test_the_logs_defaults_are_those_of_a_broker_with_nothing_set() -> None:
    assert log_config(CONFIG, "t", {}) == LogConfig()


def test_the_brokers_values_and_then_the_topics_reach_the_log() -> None:
    config = load_text(
        "log.retention.hours=1\nlog.roll.hours=2\nlog.flush.scheduler.interval.ms=9\nmessage.max.bytes=7\n"
        "log.cleanup.policy=compact,delete\ncompression.type=zstd\nlog.cleaner.min.cleanable.ratio=0.25"
    ).config
    broker = log_config(config, "t", {})
    assert (broker.retention_ms, broker.segment_ms, broker.flush_ms) == (3_600_000, 7_200_000, 9)
    assert (broker.max_message_bytes, broker.compact, broker.delete) == (7, True, True)
    assert (broker.compression_type, broker.min_cleanable_dirty_ratio) == ("zstd", 0.25)
    topic = log_config(config, "t", {"retention.ms": "-1", "cleanup.policy": "delete", "max.message.bytes": "8"})
    assert (topic.retention_ms, topic.compact, topic.delete, topic.max_message_bytes) == (-1, False, True, 8)
    assert topic.segment_ms == 7_200_000


def test_the_internal_segment_size_beats_the_public_one() -> None:
    assert log_config(CONFIG, "t", {"internal.segment.bytes": "1000", "segment.bytes": "2000000"}).segment_bytes == 1000


def test_of_several_unknown_names_kafka_tells_the_first_of_a_bucket_that_was_named() -> None:
    for names in (("q", "a"), ("a", "q"), ("q1", "aA"), ("Ab", "a"), ("a", "1"), ("QQQ", "Q1", ".")):
        with pytest.raises(InvalidConfiguration, match=f"Unknown topic config name: {names[0]}$"):
            parse_topic_configs(BrokerConfig.of(), dict.fromkeys(names, "1"))
