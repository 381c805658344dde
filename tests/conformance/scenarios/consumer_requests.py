"""ConsumerGroupHeartbeat 0-1 and ConsumerGroupDescribe 0-1: what is refused, and groups that are not there."""

from __future__ import annotations

from typing import Any

from tests.conformance.consumer_members import LEAVES, LEAVES_FOR_A_WHILE, Group, partitions
from tests.conformance.group_members import Party
from tests.conformance.runner import Talk, scenario

VERSIONS = (0, 1)
LARGEST, SMALLEST = 2**31 - 1, -(2**31)


@scenario("consumer_group_heartbeat", VERSIONS)
def refused(t: Talk, v: int) -> None:
    topic = t.topic("topic", 2)
    group = Group(t, v)
    m = group("m", topic)
    for name in ("group_id", "member_id", "instance_id", "rack_id"):
        for epoch in (0, 1, LEAVES, LEAVES_FOR_A_WHILE):
            m.beat(f"empty {name}, epoch {epoch}", **{"member_epoch": epoch, name: "", "topic_partitions": []})
    everything_empty = {"group_id": "", "member_id": "", "instance_id": "", "rack_id": "", "member_epoch": -3}
    m.beat("everything empty", **everything_empty)
    for epoch in (-3, SMALLEST):
        m.beat(f"epoch {epoch}", member_epoch=epoch)
    m.join("no rebalance timeout", rebalance_timeout=-1)
    m.join("no owned partitions", topic_partitions=None)
    m.join("owned partitions", topic_partitions=partitions((topic, [0])))
    m.join("an owned topic without partitions", topic_partitions=partitions((topic, [])))
    m.join("no subscription", subscribed_topic_names=None)
    m.join("nothing of it", rebalance_timeout=-1, topic_partitions=None, subscribed_topic_names=None)
    for assignor in ("", "Uniform", "cooperative-sticky", " range"):
        m.join(f"assignor {assignor!r}", server_assignor=assignor)
    m.beat("unknown assignor of a stranger", member_epoch=5, server_assignor="no such")
    m.leave("unknown assignor of who leaves", server_assignor="no such")
    m.leave("leaves for a while with no instance", LEAVES_FOR_A_WHILE)
    group.describe("no group yet")


@scenario("consumer_group_heartbeat", VERSIONS)
def strangers(t: Talk, v: int) -> None:
    topic = t.topic("topic", 2)
    group = Group(t, v)
    m, static = group("m", topic), group("static", topic, instance_id="i")
    for epoch in (1, LARGEST):
        m.beat(f"no group, epoch {epoch}", member_epoch=epoch)
        m.full(f"no group, epoch {epoch}, everything", member_epoch=epoch)
    m.leave("no group: leaves")
    static.leave("no group: leaves with an instance id")
    static.leave("no group: leaves for a while", LEAVES_FOR_A_WHILE)
    m.join("joins")
    other = group("other", topic)
    other.beat("a stranger, epoch 1", member_epoch=1)
    other.full("a stranger, epoch 5, everything", member_epoch=5)
    other.leave("a stranger leaves")
    other.leave("a stranger leaves with an instance id", instance_id="i")
    other.leave("a stranger leaves for a while", LEAVES_FOR_A_WHILE, instance_id="i")
    other.beat("a stranger with an instance id", member_epoch=1, instance_id="i")
    m.beat("a member with a strange instance id", instance_id="i")
    m.leave("a member leaves with a strange instance id", instance_id="i")
    m.leave("a member leaves for a while with no instance id", LEAVES_FOR_A_WHILE)
    for name in (" ", "é ü", "x" * 300, "a\nb"):
        odd = group(name, topic)
        odd.join(f"member id {name[:9]!r}", rack_id=" ", instance_id=name)
        odd.leave(f"member id {name[:9]!r} leaves", instance_id=name)
    blank = Group(t, v, "group " + " ")
    blank("m", topic).join("a group's name with blanks")
    blank.describe("the group with blanks")
    m.join("names that no topic has", subscribed_topic_names=["", " ", "a b", "x" * 300, topic.name, topic.name])
    group.describe("who subscribed to them")


@scenario("consumer_group_heartbeat", VERSIONS)
def member_ids(t: Talk, v: int) -> None:
    topic = t.topic("topic", 2)
    group = Group(t, v)
    anonymous = group("", topic)
    anonymous.join("who has no id joins")
    if v == 0:
        group.describe("an id is given")
        anonymous.beat("it is good")
        anonymous.beat("an empty one is not", member_id="")
        anonymous.member_id = ""
        anonymous.join("another id is given")
        anonymous.leave("leaves with it")
    static = group("", topic, instance_id="i")
    static.name = "static"
    static.join("a static one has no id")
    static.leave("a static one leaves with an empty id", member_id="")
    static.leave("a static one leaves for a while with an empty id", LEAVES_FOR_A_WHILE, member_id="")
    if v == 0:
        static.beat("a static one is known by its id")
    group.describe("at the end")


@scenario("consumer_group_describe", VERSIONS)
def strange_groups(t: Talk, v: int) -> None:
    topic = t.topic("topic")
    group, classic, empty = Group(t, v), Party(t, 7, "classic"), Group(t, v, "empty")
    group("m", topic).join("m joins")
    classic("c").join("c joins")
    left = empty("m", topic)
    left.join("m joins the other")
    left.leave("m leaves the other")
    nobody = t.prefix + "nobody"

    def describe(step: str, *groups: str, operations: bool = False) -> Any:
        body = {"group_ids": list(groups), "include_authorized_operations": operations}
        answer = t.main.call("consumer_group_describe", v, body)
        t.keep(step, classic.readable(answer) if isinstance(answer, dict) else answer)

    describe("nothing")
    describe("no such group", nobody)
    describe("a classic group", classic.group_id)
    describe("an empty name", "")
    describe("an empty group", empty.group_id)
    describe("the same twice", group.group_id, group.group_id)
    describe("no such group twice", nobody, nobody)
    describe("all of them", "", nobody, classic.group_id, group.group_id, empty.group_id)
    describe("with operations", group.group_id, nobody, operations=True)
    t.call("null", "consumer_group_describe", v, {"group_ids": None})
    t.call("a null name", "consumer_group_describe", v, {"group_ids": [None]})
    t.call("a null group", "consumer_group_heartbeat", v, {"group_id": None, "member_id": "m", "member_epoch": 0})
    t.call("a null member", "consumer_group_heartbeat", v, {"group_id": nobody, "member_id": None, "member_epoch": 0})
