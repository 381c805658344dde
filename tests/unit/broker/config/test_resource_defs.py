"""Configurations of groups and of client metrics subscriptions: which of several wrong ones is told, and patterns."""

import pytest

from broker.config.broker_config import BrokerConfig
from broker.config.resource_defs import parse_client_metrics_configs, parse_group_configs, parse_match
from protocol.errors import InvalidConfiguration, InvalidRequest

CONFIG = BrokerConfig.of()


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            {"consumer.session.timeout.ms": "15001", "consumer.heartbeat.interval.ms": "99999999"},
            "consumer.heartbeat.interval.ms must be less than or equal to group.consumer.max.heartbeat.interval.ms",
        ),
        (
            {"share.heartbeat.interval.ms": "1", "consumer.session.timeout.ms": "1"},
            "consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms",
        ),
        (
            {"streams.num.standby.replicas": "3"},
            "streams.num.standby.replicas must be less than or equal to group.streams.max.standby.replicas",
        ),
        ({"no.such": "1", "share.isolation.level": "x"}, "Unknown group config name: no.such"),
        (
            {"share.auto.offset.reset": "soon"},
            "Invalid value soon for configuration share.auto.offset.reset: Invalid value `soon` for configuration "
            "share.auto.offset.reset. The value must be either 'earliest', 'latest' or of the format "
            "'by_duration:<PnDTnHnMn.nS>'.",
        ),
    ],
)
def test_what_a_group_refuses(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidConfiguration) as raised:
        parse_group_configs(CONFIG, overrides)
    assert raised.value.message == message


def test_what_a_subscription_refuses() -> None:
    with pytest.raises(InvalidRequest, match=r"Unknown client metrics configuration: no\.such"):
        parse_client_metrics_configs({"interval.ms": "1", "no.such": "1"})
    with pytest.raises(InvalidConfiguration, match=r"Illegal client matching pattern: client_id=\["):
        parse_client_metrics_configs({"match": "client_id=["})


def test_a_pattern_is_a_java_pattern_with_named_groups() -> None:
    match = parse_match(("client_id = (?<who>a|b)-(?<!x)1",))
    assert match["client_id"].fullmatch("b-1")
