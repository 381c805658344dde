"""Which configurations may follow upon which, as in Apache Kafka 4.1."""

from __future__ import annotations

import pytest

from broker.api.broker_changes import refused_change
from broker.config.broker_config import BrokerConfig

FIXED = "The settings of listener PLAINTEXT take effect only at a start: set them in the file"
WEEK = 7 * 24 * 3_600_000


def refused(new: dict[str, str], old: dict[str, str] | None = None, static: dict[str, str] | None = None) -> str | None:
    config = BrokerConfig.of(static or {})
    return refused_change(config.with_dynamic(old or {}, {}), config.with_dynamic(new, {}))


def pool(name: str, size: int, low: int, high: int, now: int) -> str:
    return f"{name} = {size}: expected from {low} to {high}, half to double of the current {now}"


@pytest.mark.parametrize(
    ("new", "complaint"),
    [
        ({"num.io.threads": "3"}, pool("num.io.threads", 3, 4, 16, 8)),
        ({"num.io.threads": "4"}, None),
        ({"num.io.threads": "16"}, None),
        ({"num.io.threads": "17"}, pool("num.io.threads", 17, 4, 16, 8)),
        ({"num.replica.fetchers": "3"}, pool("num.replica.fetchers", 3, 1, 2, 1)),
        (
            {"remote.log.reader.threads": "4"},
            pool("remote.log.reader.threads", 4, 5, 20, 10),
        ),
        (
            {"log.cleaner.threads": "3"},
            pool("log.cleaner.threads", 3, 1, 2, 1),
        ),
        ({"max.connections": "0"}, "Invalid max.connections 0"),
        ({"max.connections": "0", "listener.name.plaintext.max.connections": "5"}, None),
        ({"max.connection.creation.rate": "0"}, "Invalid max.connection.creation.rate 0"),
        (
            {"listener.name.plaintext.num.network.threads": "7"},
            pool("num.network.threads", 7, 1, 6, 3),
        ),
        ({"listener.name.other.num.network.threads": "7"}, None),
        (
            {"listener.name.plaintext.node.id": "x"},
            "Invalid value x for configuration node.id: Not a number of type INT",
        ),
        ({"listener.name.plaintext.plain.connections.max.reauth.ms": "7"}, None),
        ({"listener.name.plaintext.node.id": "1"}, None),
        ({"listener.name.plaintext.node.id": "1", "max.connections": "5"}, FIXED),
        ({"listener.name.plaintext.ssl.keystore.type": "PEM", "max.connections": "5"}, None),
        (
            {"metric.reporters": "a.B", "log.cleaner.threads": "2"},
            "metric.reporters = 'a.B': expected none but org.apache.kafka.common.metrics.JmxReporter",
        ),
        ({"metric.reporters": ""}, None),
        (
            {"log.local.retention.ms": str(WEEK + 1)},
            f"log.local.retention.ms = {WEEK + 1}: expected at most log.retention.ms, {WEEK}",
        ),
        (
            {"log.local.retention.ms": "-1"},
            f"log.local.retention.ms = -1: expected at most log.retention.ms, {WEEK}",
        ),
        ({"log.local.retention.ms": "-1", "log.retention.ms": "-5"}, None),
        ({"log.local.retention.bytes": "6"}, None),
        (
            {"log.local.retention.bytes": "6", "log.retention.bytes": "5"},
            "log.local.retention.bytes = 6: expected at most log.retention.bytes, 5",
        ),
    ],
)
def test_a_change_from_the_defaults(new: dict[str, str], complaint: str | None) -> None:
    assert refused(new) == complaint


def test_a_pool_may_be_halved_or_doubled_from_what_it_has() -> None:
    assert refused({"log.cleaner.threads": "2"}, {"log.cleaner.threads": "4"}) is None
    assert refused({"log.cleaner.threads": "2"}, {"log.cleaner.threads": "6"}) == pool(
        "log.cleaner.threads", 2, 3, 12, 6
    )
    assert refused({}, {"num.io.threads": "17"}) is None
    assert refused({"num.io.threads": "8"}, {"num.io.threads": "17"}) is None
    assert refused({"num.io.threads": "7"}, {"num.io.threads": "17"}) is not None


def test_only_what_a_change_touches_is_asked() -> None:
    static = {"log.local.retention.ms": "9", "log.retention.ms": "5", "metric.reporters": "a.B"}
    assert refused({"num.io.threads": "9"}, static=static) is None
    assert refused({}, static=static) is None
    assert "expected at most log.retention.ms" in str(refused({"compression.type": "zstd"}, static=static))


def test_a_listeners_other_configurations_stay_as_they_were_at_the_start() -> None:
    name = "listener.name.plaintext.node.id"
    assert refused({name: "1", "max.connections": "5"}, {name: "1"}) == FIXED
    assert refused({"max.connections": "5"}, static={name: "1"}) is None


def test_a_listener_keeps_its_protocol() -> None:
    static = {
        "listeners": "A://a:1,C://a:2",
        "listener.security.protocol.map": "A:PLAINTEXT,C:PLAINTEXT",
        "controller.listener.names": "C",
    }
    change = {"listener.security.protocol.map": "A:PLAINTEXT,C:SSL"}
    assert refused(change, static=static) == "The protocol of listener C cannot be changed while the broker runs"
