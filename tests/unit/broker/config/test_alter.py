"""AlterConfigs and IncrementalAlterConfigs: results and refusals."""

from __future__ import annotations

import pytest

from broker.config.alter import (
    AlterOp,
    Change,
    changed_broker,
    changed_topic,
    is_per_broker,
    require_well_formed,
)
from broker.config.broker_config import BrokerConfig
from broker.config.topic_config import log_config, parse_topic_configs
from protocol.errors import InvalidConfiguration, InvalidRequest, KafkaError, UnknownServerError

SET, DELETE, APPEND, SUBTRACT = AlterOp
CONFIG = BrokerConfig.of()
WITH_MIN_ISR = CONFIG.with_dynamic({}, {"min.insync.replicas": "1"})


def topic(current: dict[str, str], *changes: tuple[str, int, str | None]) -> dict[str, str]:
    return changed_topic(current, [Change(*change) for change in changes])


def broker(*changes: tuple[str, int, str | None], per_broker: bool = True, incremental: bool = True) -> dict[str, str]:
    wanted = [Change(*change) for change in changes]
    return changed_broker(WITH_MIN_ISR, wanted, per_broker=per_broker, incremental=incremental)


@pytest.mark.parametrize(
    ("current", "change", "expected"),
    [
        ({}, ("retention.ms", SET, "5"), {"retention.ms": "5"}),
        ({"retention.ms": "5"}, ("retention.ms", DELETE, "ignored"), {}),
        ({}, ("nope", DELETE, None), {}),
        ({}, ("cleanup.policy", APPEND, "compact"), {"cleanup.policy": "delete,compact"}),
        (
            {"cleanup.policy": "compact"},
            ("cleanup.policy", APPEND, "compact,delete"),
            {"cleanup.policy": "compact,delete"},
        ),
        ({"cleanup.policy": "compact,delete"}, ("cleanup.policy", SUBTRACT, "compact"), {"cleanup.policy": "delete"}),
        ({}, ("cleanup.policy", SUBTRACT, "delete"), {"cleanup.policy": ""}),
        ({"cleanup.policy": ""}, ("cleanup.policy", APPEND, "delete,"), {"cleanup.policy": "delete"}),
    ],
)
def test_topic_changes(current: dict[str, str], change: tuple[str, int, str | None], expected: dict[str, str]) -> None:
    assert topic(current, change) == expected


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([("retention.ms", SET, None)], "Null value not supported for : retention.ms"),
        ([("cleanup.policy", APPEND, None), ("a", SET, None)], "Null value not supported for : cleanup.policy, a"),
        ([("retention.ms", SET, "1")] * 2, "Error due to duplicate config keys"),
    ],
)
def test_changes_that_are_not_well_formed(changes: list[tuple[str, int, str | None]], message: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        require_well_formed([Change(*change) for change in changes])
    assert raised.value.message == message


def test_operations_that_there_are_not() -> None:
    for operation in (-1, 4):
        changes = [Change("retention.ms", DELETE, None), Change("retention.ms", operation, "1")]
        with pytest.raises(InvalidRequest, match=f"Unknown operations type {operation}"):
            changed_broker(CONFIG, changes, per_broker=False, incremental=True)
        with pytest.raises(UnknownServerError):
            changed_topic({}, changes)


def test_a_deletion_needs_no_value_and_the_empty_one_can_be_set() -> None:
    changes = [("retention.ms", DELETE, None), ("cleanup.policy", SET, "")]
    require_well_formed([Change(*change) for change in changes])
    assert topic({"retention.ms": "5", "cleanup.policy": "compact"}, *changes) == {"cleanup.policy": ""}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("nope", APPEND, "1"), "Can't APPEND to key nope because its type is not LIST."),
        (("retention.ms", SUBTRACT, "1"), "Can't SUBTRACT to key retention.ms because its type is not LIST."),
    ],
)
def test_what_is_no_list_is_not_appended_to(change: tuple[str, int, str | None], message: str) -> None:
    with pytest.raises(InvalidConfiguration) as raised:
        topic({}, change)
    assert raised.value.message == message


def test_what_was_is_left_as_it_was() -> None:
    current = {"retention.ms": "5"}
    assert topic(current, ("retention.ms", SET, "6"), ("segment.bytes", SET, "x")) == {
        "retention.ms": "6",
        "segment.bytes": "x",
    }
    assert current == {"retention.ms": "5"}


def test_a_change_that_is_not_incremental_replaces_all() -> None:
    config = CONFIG.with_dynamic({"log.retention.ms": "1"}, {})
    change = Change("log.roll.ms", SET, "9")
    assert changed_broker(config, [change], per_broker=True, incremental=False) == {"log.roll.ms": "9"}
    assert changed_broker(config, [change], per_broker=True, incremental=True) == {
        "log.retention.ms": "1",
        "log.roll.ms": "9",
    }


@pytest.mark.parametrize("per_broker", [True, False])
@pytest.mark.parametrize(
    "change",
    [
        ("log.retention.ms", SET, "5000"),
        ("num.partitions", DELETE, None),
        ("no.such.key", SET, "1"),
        ("num.io.threads", SET, "9"),
        ("log.cleanup.policy", APPEND, "compact"),
        ("num.recovery.threads.per.data.dir", SET, "4"),
        ("max.connections", SET, "5"),
    ],
)
def test_what_may_be_altered_for_a_broker_and_for_the_cluster(
    change: tuple[str, int, str | None], per_broker: bool
) -> None:
    altered = broker(change, per_broker=per_broker)
    assert (change[0] in altered) == (change[1] != DELETE)


@pytest.mark.parametrize("per_broker", [True, False])
@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        (
            [("num.partitions", SET, "3"), ("node.id", SET, "3"), ("log.retention.ms", SET, "5")],
            InvalidRequest,
            "set them in the file: num.partitions, node.id",
        ),
        (
            [("quota.window.num", SET, "3")],
            InvalidRequest,
            "set them in the file: quota.window.num",
        ),
        (
            [("log.retention.ms", SET, "x")],
            InvalidRequest,
            "Invalid value x for configuration log.retention.ms: Not a number of type LONG",
        ),
        (
            [("log.retention.ms", SET, "0")],
            InvalidRequest,
            "log.retention.ms = 0: expected at least 1, or -1 for no limit",
        ),
        ([("num.io.threads", SET, "x")], InvalidRequest, "Not a number of type INT"),
        ([("num.io.threads", SET, "100")], InvalidRequest, "num.io.threads = 100: expected from 4 to 16"),
        ([("log.cleaner.threads", SET, "0")], InvalidRequest, "log.cleaner.threads = 0: expected at least 1"),
        ([("leader.replication.throttled.rate", SET, "-1")], InvalidRequest, "Value must be at least 0"),
        (
            [("listener.name.any.max.connections", SET, "-1")],
            InvalidRequest,
            "for configuration max.connections: Value",
        ),
        (
            [("ssl.keystore.type", SET, "JKS"), ("ssl.keystore.location", SET, "a")],
            InvalidRequest,
            "Set these per listener, as .*: ssl.keystore.type, ssl.keystore.location",
        ),
        ([("ssl.engine.factory.class", SET, "a.B")], InvalidRequest, "Class a.B could not be found."),
        ([("ssl.engine.factory.class", SET, " a.B ")], InvalidRequest, "Class  a.B  could not be found."),
        (
            [("log.retention.ms", SET, "x"), ("background.threads", SET, "0")],
            InvalidRequest,
            "Invalid value x for configuration log.retention.ms",
        ),
        (
            [("log.cleaner.threads", APPEND, "2")],
            InvalidConfiguration,
            "Config value append is not allowed for config key: log.cleaner.threads",
        ),
        ([("no.such.key", APPEND, "2")], UnknownServerError, UnknownServerError.default_message),
        ([("process.roles", SUBTRACT, "broker")], UnknownServerError, UnknownServerError.default_message),
    ],
)
def test_broker_refusals(
    changes: list[tuple[str, int, str | None]], error: type[KafkaError], message: str, per_broker: bool
) -> None:
    with pytest.raises(error, match=message):
        broker(*changes, per_broker=per_broker)


def test_listeners_are_altered_for_one_broker_alone() -> None:
    change = ("listeners", SET, "PLAINTEXT://127.0.0.1:9093")
    assert broker(change) == {"listeners": change[2]}
    with pytest.raises(
        InvalidRequest, match="Name a broker, since these cannot be set for the whole cluster: listeners"
    ):
        broker(change, per_broker=False)
    with pytest.raises(InvalidRequest, match="listeners = 'zzz': expected NAME://host:port"):
        broker(("listeners", SET, "zzz"))


def test_a_listeners_own_configurations_are_one_brokers_except_for_its_limits() -> None:
    limit, other = ("listener.name.x.max.connections", SET, "5"), ("listener.name.x.ssl.keystore.type", SET, "JKS")
    assert broker(limit, per_broker=False) == {"min.insync.replicas": "1", limit[0]: "5"}
    assert broker(limit, other) == {limit[0]: "5", other[0]: "JKS"}
    with pytest.raises(InvalidRequest, match=f"Name a broker, .*: {other[0]}, ssl.protocol"):
        broker(limit, other, ("ssl.protocol", SET, "TLSv1.3"), per_broker=False)


def test_a_minimum_compaction_lag_above_the_maximum_is_taken_and_told_when_a_topic_is_altered() -> None:
    lags = {"log.cleaner.min.compaction.lag.ms": "9", "log.cleaner.max.compaction.lag.ms": "5"}
    changes = [Change(name, SET, value) for name, value in lags.items()]
    assert changed_broker(CONFIG, changes, per_broker=True, incremental=True) == lags
    config = CONFIG.with_dynamic(lags, {})
    assert log_config(config, {}).min_compaction_lag_ms == 9
    with pytest.raises(InvalidConfiguration, match="conflict topic config setting"):
        parse_topic_configs(config, {"retention.ms": "5"})


def test_min_insync_replicas_is_the_clusters_and_stays() -> None:
    with pytest.raises(InvalidConfiguration, match="Broker-level"):
        broker(("min.insync.replicas", SET, "2"))
    with pytest.raises(InvalidConfiguration, match="Cluster-level"):
        broker(("min.insync.replicas", DELETE, None), per_broker=False)
    with pytest.raises(InvalidConfiguration, match="Cluster-level"):
        broker(("log.retention.ms", SET, "5"), per_broker=False, incremental=False)
    assert broker(("min.insync.replicas", SET, "2"), per_broker=False) == {"min.insync.replicas": "2"}


def test_the_altered_resource_is_this_broker_or_the_cluster() -> None:
    assert is_per_broker(CONFIG, "1")
    assert not is_per_broker(CONFIG, "")
    with pytest.raises(InvalidRequest, match="Unexpected broker id, expected 1, but received 2"):
        is_per_broker(CONFIG, "2")
    for name in ("x", " 1", "0_1", "2147483648"):
        with pytest.raises(InvalidRequest, match=f"Node id must be an integer, but it is: {name}"):
            is_per_broker(CONFIG, name)


def test_a_value_that_became_too_long_by_appending_is_refused() -> None:
    text = "A configuration value may have 32767 characters at most."
    with pytest.raises(InvalidConfiguration, match=text):
        topic({}, ("cleanup.policy", APPEND, "q" * 32_767))
    with pytest.raises(InvalidConfiguration, match=text):
        topic({}, ("cleanup.policy", APPEND, "\N{GRINNING FACE}" * 16_381))
    assert len(topic({}, ("cleanup.policy", APPEND, "q" * 32_760))["cleanup.policy"]) == 32_767
