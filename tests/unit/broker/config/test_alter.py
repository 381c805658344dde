"""What a broker checks of AlterConfigs and IncrementalAlterConfigs before the controller decides."""

from __future__ import annotations

import pytest

from broker.api.broker_changes import check_broker, is_per_broker, require_well_formed
from broker.config.broker_config import BrokerConfig
from broker.config.resource_configs import log_config, parse_topic_configs
from controller.configs import AlterOp, ConfigChange
from protocol.errors import InvalidConfiguration, InvalidRequest, KafkaError

SET, DELETE, APPEND, SUBTRACT = AlterOp
CONFIG = BrokerConfig.of()


def check(
    *changes: tuple[str, int, str | None],
    per_broker: bool = True,
    incremental: bool = True,
    config: BrokerConfig = CONFIG,
) -> None:
    """Raises KafkaError if the broker does not let these changes of its configurations through."""
    wanted = [ConfigChange(*change) for change in changes]
    check_broker(config, wanted, per_broker=per_broker, incremental=incremental)


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
        require_well_formed([ConfigChange(*change) for change in changes])
    assert raised.value.message == message


@pytest.mark.parametrize("operation", [-1, 4])
def test_operations_that_there_are_not(operation: int) -> None:
    with pytest.raises(InvalidRequest, match=f"Unknown operations type {operation}"):
        check(("retention.ms", DELETE, None), ("retention.ms", operation, "1"), per_broker=False)


def test_a_deletion_needs_no_value_and_the_empty_one_can_be_set() -> None:
    require_well_formed([ConfigChange("retention.ms", DELETE, None), ConfigChange("cleanup.policy", SET, "")])


def test_only_a_change_that_is_incremental_is_checked_together_with_what_is_set() -> None:
    config = CONFIG.with_dynamic({"log.cleaner.threads": "2"}, {})
    change = ("log.cleaner.dedupe.buffer.size", SET, str(2 << 20))
    with pytest.raises(InvalidRequest, match="more than 1 MB for each of 2 threads"):
        check(change, config=config)
    check(change, incremental=False, config=config)


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
    check(change, per_broker=per_broker)


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
        ([("no.such.key", APPEND, "2")], InvalidConfiguration, "append is not allowed for config key: no.such.key"),
        ([("process.roles", SUBTRACT, "broker")], InvalidRequest, "is no config with a list of values"),
    ],
)
def test_broker_refusals(
    changes: list[tuple[str, int, str | None]], error: type[KafkaError], message: str, per_broker: bool
) -> None:
    with pytest.raises(error, match=message):
        check(*changes, per_broker=per_broker)


def test_listeners_are_altered_for_one_broker_alone() -> None:
    change = ("listeners", SET, "PLAINTEXT://127.0.0.1:9093")
    check(change)
    with pytest.raises(
        InvalidRequest, match="Name a broker, since these cannot be set for the whole cluster: listeners"
    ):
        check(change, per_broker=False)
    with pytest.raises(InvalidRequest, match="listeners = 'zzz': expected NAME://host:port"):
        check(("listeners", SET, "zzz"))


def test_a_listeners_own_configurations_are_one_brokers_except_for_its_limits() -> None:
    limit, other = ("listener.name.x.max.connections", SET, "5"), ("listener.name.x.ssl.keystore.type", SET, "JKS")
    check(limit, per_broker=False)
    check(limit, other)
    with pytest.raises(InvalidRequest, match=f"Name a broker, .*: {other[0]}, ssl.protocol"):
        check(limit, other, ("ssl.protocol", SET, "TLSv1.3"), per_broker=False)


def test_a_minimum_compaction_lag_above_the_maximum_is_taken_and_told_when_a_topic_is_altered() -> None:
    lags = {"log.cleaner.min.compaction.lag.ms": "9", "log.cleaner.max.compaction.lag.ms": "5"}
    check(*((name, SET, value) for name, value in lags.items()))
    config = CONFIG.with_dynamic(lags, {})
    assert log_config(config, "t", {}).min_compaction_lag_ms == 9
    with pytest.raises(InvalidConfiguration, match="conflict topic config setting"):
        parse_topic_configs(config, {"retention.ms": "5"})


def test_the_altered_resource_is_this_broker_or_the_cluster() -> None:
    assert is_per_broker(CONFIG, "1")
    assert not is_per_broker(CONFIG, "")
    with pytest.raises(InvalidRequest, match="Unexpected broker id, expected 1, but received 2"):
        is_per_broker(CONFIG, "2")
    for name in ("x", " 1", "0_1", "2147483648"):
        with pytest.raises(InvalidRequest, match=f"Node id must be an integer, but it is: {name}"):
            is_per_broker(CONFIG, name)
