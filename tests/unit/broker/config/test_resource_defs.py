"""Configurations of groups and of client metrics subscriptions: which of several wrong ones is reported, patterns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from broker.config.broker_config import BrokerConfig
from broker.config.client_metrics_configs import parse_client_metrics_configs, parse_match
from broker.config.resource_configs import GROUP_CONFIGS, effective_group_configs, group_configs, parse_group_configs
from protocol.errors import InvalidConfiguration, InvalidRequest
from tests.unit.broker.config.loading import load_text

RECORDED = Path(__file__).parents[3] / "conformance/data/kafka_configs.json"
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
        (
            {"streams.task.offset.interval.ms": "14999"},
            "streams.task.offset.interval.ms must be greater than or equal to 15000",
        ),
        ({"streams.num.warmup.replicas": "21"}, "streams.num.warmup.replicas must be less than or equal to 20"),
        (
            {"streams.rack.aware.assignment.tags": "zone, zone"},
            "streams.rack.aware.assignment.tags must not contain duplicate tag keys.",
        ),
        (
            {"streams.rack.aware.assignment.tags": "zone,,rack"},
            "Invalid value zone,,rack for configuration streams.rack.aware.assignment.tags: entries must not be empty",
        ),
        (
            {"errors.deadletterqueue.topic.name": "__dead"},
            "errors.deadletterqueue.topic.name: DLQ topic name must not start with '__'",
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


def test_a_group_has_what_the_broker_is_configured_with() -> None:
    quick = {
        "group.consumer.session.timeout.ms": "10000",
        "group.consumer.heartbeat.interval.ms": "1000",
        "group.consumer.min.session.timeout.ms": "2000",
        "group.consumer.min.heartbeat.interval.ms": "500",
    }
    config = load_text("\n".join(f"{name}={value}" for name, value in quick.items())).config
    values = parse_group_configs(config, {"consumer.session.timeout.ms": "2000"})
    assert (values["consumer.session.timeout.ms"], values["consumer.heartbeat.interval.ms"]) == (2000, 1000)
    with pytest.raises(InvalidConfiguration, match="must be greater than consumer"):
        parse_group_configs(config, {"consumer.heartbeat.interval.ms": "10000"})
    assert group_configs(config)["consumer.session.timeout.ms"].default_text == "10000"
    assert group_configs(CONFIG)["consumer.session.timeout.ms"].default_text == "45000"


def test_what_was_set_under_wider_limits_counts_as_the_limit_of_now() -> None:
    """Kafka's `GroupConfig.evaluate`: a group is not refused because its broker has got narrower limits."""
    stored = {
        "share.record.lock.duration.ms": "90000",
        "share.delivery.count.limit": "2",
        "streams.task.offset.interval.ms": "20000",
        "of.a.later.release": "x",
    }
    values = effective_group_configs(CONFIG, stored)
    names = ("share.record.lock.duration.ms", "share.delivery.count.limit", "streams.task.offset.interval.ms")
    assert [values[name] for name in names] == [60_000, 2, 20_000]
    narrow = load_text("group.share.min.delivery.count.limit=4").config
    assert effective_group_configs(narrow, stored)[names[1]] == 4


def test_what_a_subscription_refuses() -> None:
    with pytest.raises(InvalidRequest, match=r"Unknown client metrics configuration: no\.such"):
        parse_client_metrics_configs({"interval.ms": "1", "no.such": "1"})


@pytest.mark.parametrize("pattern", ["[", "a{4294967295}", "(" * 5000 + ")" * 5000])
def test_an_illegal_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidConfiguration, match="Illegal client matching pattern: client_id="):
        parse_client_metrics_configs({"match": f"client_id={pattern}"})


def test_a_pattern_is_a_java_pattern_with_named_groups() -> None:
    match = parse_match(("client_id = (?<who>a|b)-(?<!x)1",))
    assert match["client_id"].fullmatch("b-1")


def test_the_configurations_of_groups_are_kafkas() -> None:
    """As Apache Kafka 4.4 defines them (tools/recorders/KafkaDefinitions.java)."""
    recorded = {row[0]: row for row in json.loads(RECORDED.read_text())["group_definitions"]}
    assert GROUP_CONFIGS.keys() == recorded.keys()
    for name, (_, kind, default, _, _, internal, _) in recorded.items():
        definition = GROUP_CONFIGS[name]
        shown = "sticky" if name == "streams.assignor.name" else default  # in Kafka the first of the broker's
        assert (definition.type.name, definition.default_text, definition.internal) == (kind, shown, internal)
