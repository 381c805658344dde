"""ConsumerGroupHeartbeat 0-1: settings of single groups (KIP-848, resource type GROUP), and topics that are gone."""

from __future__ import annotations

from tests.conformance.consumer_members import Group
from tests.conformance.runner import Talk, scenario

GROUP = 32
SET, DELETE = 0, 1


def alter(t: Talk, step: str, group: str, operation: int, **values: str | None) -> None:
    """Names have `_` for `.`."""
    configs = [
        {"name": name.replace("_", "."), "config_operation": operation, "value": value}
        for name, value in values.items()
    ]
    resource = {"resource_type": GROUP, "resource_name": group, "configs": configs}
    t.call(step, "incremental_alter_configs", 1, {"resources": [resource], "validate_only": False})


@scenario("consumer_group_heartbeat", (0, 1))
def settings_of_a_group(t: Talk, v: int) -> None:
    topic = t.topic("topic")
    group, other = Group(t, v), Group(t, v, "other")
    m, n = group("m", topic), other("n", topic)
    alter(t, "an interval of seven seconds", group.group_id, SET, consumer_heartbeat_interval_ms="7000")
    t.until("it is known", lambda: interval(t, group.group_id) == "7000")
    m.join("m joins")
    n.join("n joins another group")
    m.beat("m goes on")
    for value in ("4999", "15001", "0", "-1", "x", ""):
        alter(t, f"an interval of {value!r}", group.group_id, SET, consumer_heartbeat_interval_ms=value)
    for value in ("44999", "60001", "50000"):
        alter(t, f"a session of {value}", group.group_id, SET, consumer_session_timeout_ms=value)
    alter(t, "what there is not", group.group_id, SET, consumer_assignor="range")
    alter(t, "another interval", group.group_id, SET, consumer_heartbeat_interval_ms="6000")
    t.until("that is known", lambda: interval(t, group.group_id) == "6000")
    m.beat("m goes on with the other")
    alter(t, "the default again", group.group_id, DELETE, consumer_heartbeat_interval_ms=None)
    t.until("the default is known", lambda: interval(t, group.group_id) == "5000")
    m.beat("m goes on with the default")
    alter(t, "and no session", group.group_id, DELETE, consumer_session_timeout_ms=None)


def interval(t: Talk, group: str) -> str:
    body = {"resources": [{"resource_type": GROUP, "resource_name": group, "configuration_keys": None}]}
    configs = t.main.call("describe_configs", 4, body)["results"][0]["configs"]
    return str(next(one["value"] for one in configs if one["name"] == "consumer.heartbeat.interval.ms"))


@scenario("consumer_group_describe", (0, 1))
def topics_that_are_gone(t: Talk, v: int) -> None:
    topic, other = t.topic("topic", 2), t.topic("other", 2)
    group = Group(t, v)
    m = group("m", topic, other)
    m.join("m joins")
    group.describe("both are there")
    t.main.call("delete_topics", 6, {"topics": [{"name": other.name}], "timeout": 10_000})
    t.until("told of one topic", lambda: len(group.described()["members"][0]["assignment"]["topic_partitions"]) == 1)
    group.describe("one is gone, and m does not know")
