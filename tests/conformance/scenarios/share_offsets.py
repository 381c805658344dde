"""Describe-, Alter- and DeleteShareGroupOffsets (KIP-932), and what other groups' requests say of share groups."""

from __future__ import annotations

from typing import Any

from tests.conformance.consumer_members import Group
from tests.conformance.runner import Talk, Topic, scenario
from tests.conformance.share_members import ACCEPT, ShareGroup


def asked(topic: Topic | str, *indexes: int) -> dict[str, Any]:
    return {"topic_name": topic.name if isinstance(topic, Topic) else topic, "partitions": list(indexes)}


def moved(topic: Topic | str, **offsets: int) -> dict[str, Any]:
    """`moved(topic, p0=3)`: partition 0 to offset 3."""
    partitions = [{"partition_index": int(name[1:]), "start_offset": offset} for name, offset in offsets.items()]
    return {"topic_name": topic.name if isinstance(topic, Topic) else topic, "partitions": partitions}


@scenario("describe_share_group_offsets", (0, 1))
def share_offsets_told(t: Talk, v: int) -> None:
    topic, other = t.topic("topic", 2), t.topic("other")
    group = ShareGroup(t)
    group.configure(share_auto_offset_reset="earliest")

    def ask(step: str, *topics: dict[str, Any] | None, group_id: str = group.group_id) -> None:
        listed = None if topics == (None,) else list(topics)
        t.call(step, "describe_share_group_offsets", v, {"groups": [{"group_id": group_id, "topics": listed}]})

    ask("before there is a group", asked(topic, 0))
    group.ready(topic)
    ask("initialised", asked(topic, 0, 1))
    ask("all topics", None)
    t.fill(topic, 0, t.batch(4))
    m = group("m", topic)
    m.join("joins")
    m.get("takes all", topic)
    ask("acquired", asked(topic, 0, 1))
    m.acknowledge("accepts some", (topic, {0: [(0, 1, ACCEPT)]}))
    ask("some accepted", asked(topic, 0))
    m.acknowledge("accepts the last", (topic, {0: [(3, 3, ACCEPT)]}))
    ask("with a hole", asked(topic, 0))
    m.acknowledge("accepts the rest", (topic, {0: [(2, 2, ACCEPT)]}))
    ask("all accepted", asked(topic, 0))
    ask("every topic", None)
    ask("a topic that is not read", asked(other, 0))
    ask("a topic that there is not", asked(t.name("none"), 0))
    ask("no partitions", asked(topic))
    ask("a negative partition", asked(topic, -1))
    ask("no group id", asked(topic, 0), group_id="")
    ask("an unknown group, every topic", None, group_id=t.name("unknown"))
    consumers = Group(t, 1, "consumers")
    c = consumers("c", topic)
    c.ask(**{"member_epoch": 0, "topic_partitions": []} | c.subscription)
    ask("a consumer group", asked(topic, 0), group_id=consumers.group_id)


@scenario("alter_share_group_offsets")
def share_offsets_moved(t: Talk, v: int) -> None:
    topic, other = t.topic("topic", 2), t.topic("other")
    t.fill(topic, 0, t.batch(6))
    group = ShareGroup(t)
    group.configure(share_auto_offset_reset="earliest")
    group.ready(topic)

    def alter(step: str, *topics: dict[str, Any], group_id: str = group.group_id) -> None:
        t.call(step, "alter_share_group_offsets", v, {"group_id": group_id, "topics": list(topics)})

    alter("one partition", moved(topic, p0=2))
    group.offsets("moved", topic, 0, 1)
    alter("both", moved(topic, p0=3, p1=0))
    group.offsets("both moved", topic, 0, 1)
    alter("past the end", moved(topic, p0=99))
    group.offsets("a negative lag", topic, 0)
    alter("-1", moved(topic, p0=-1))
    alter("-2", moved(topic, p0=-2))
    group.offsets("as given", topic, 0)
    alter("a topic that is not read yet", moved(other, p0=0))
    group.offsets("read from now on", other, 0)
    alter("a topic that there is not", moved(t.name("none"), p0=0))
    alter("a partition that there is not", moved(topic, p0=4, p7=0))
    group.offsets("the good one counts", topic, 0)
    alter("no partitions", moved(topic))
    alter("no topics")
    alter("no group id", moved(topic, p0=0), group_id="")
    alter("a group that there is not", moved(topic, p0=1), group_id=t.name("made"))
    ShareGroup(t, group="made").describe("it is made")
    m = group("m", topic)
    m.join("joins")
    alter("while there are members", moved(topic, p0=5))
    m.leave("leaves")
    alter("after they left", moved(topic, p0=5))
    late = group("late", topic)
    late.join("another joins")
    late.get("begins there", topic)
    consumers = Group(t, 1, "consumers")
    c = consumers("c", topic)
    c.ask(**{"member_epoch": 0, "topic_partitions": []} | c.subscription)
    alter("a consumer group", moved(topic, p0=0), group_id=consumers.group_id)


@scenario("alter_share_group_offsets")
def share_offsets_of_nothing(t: Talk, v: int) -> None:
    """A topic that there is makes the group, though nothing of it is altered."""
    group = ShareGroup(t)
    for step, topic in (
        ("a topic that there is not", moved(t.name("none"), p0=0)),
        ("a partition that there is not", moved(t.topic("topic"), p7=0)),
    ):
        t.call(step, "alter_share_group_offsets", v, {"group_id": group.group_id, "topics": [topic]})
        group.describe(f"the group after {step}")
    t.call("deleted", "delete_groups", 2, {"groups_names": [group.group_id]})


@scenario("describe_share_group_offsets", (1,))
def share_offsets_of_new_partitions(t: Talk, v: int) -> None:
    """They start at 0, whatever the group's policy is, so that nothing is missed."""
    topic, other = t.topic("topic"), t.topic("other", 2)
    group = ShareGroup(t)
    group.ready(topic)
    grown = [{"name": topic.name, "count": 2, "assignments": None}]
    t.main.call("create_partitions", 3, {"topics": grown, "timeout": 5000, "validate_only": False})
    t.ready(topic.name, 2)
    t.fill(topic, 1, t.batch(4))
    body = {"group_id": group.group_id, "topics": [moved(other, p0=0)]}
    t.main.call("alter_share_group_offsets", 0, body)
    group.assigned({topic: 2, other: 2})
    group.offsets("grown", topic, 0, 1)
    group.offsets("of which one partition was altered", other, 0, 1)


@scenario("delete_share_group_offsets")
def share_offsets_removed(t: Talk, v: int) -> None:
    topic, other = t.topic("topic", 2), t.topic("other")
    t.fill(topic, 0, t.batch(3))
    group = ShareGroup(t)
    group.configure(share_auto_offset_reset="earliest")
    group.ready(topic)

    def delete(step: str, *topics: Topic | str, group_id: str = group.group_id) -> None:
        named = [{"topic_name": one.name if isinstance(one, Topic) else one} for one in topics]
        t.call(step, "delete_share_group_offsets", v, {"group_id": group_id, "topics": named})

    m = group("m", topic)
    m.join("joins")
    delete("while there are members", topic)
    m.leave("leaves")
    delete("a topic that is not read", other)
    delete("a topic that there is not", t.name("none"))
    delete("a good one and a bad one", topic, other)
    group.offsets("nothing left", topic, 0)
    delete("again", topic)
    delete("no topics")
    delete("no group id", topic, group_id="")
    delete("a group that there is not", topic, group_id=t.name("unknown"))
    m.join("joins again")
    m.settle("gets its partitions anew")


@scenario("offset_fetch", (9, 10))
def offsets_of_share_groups(t: Talk, v: int) -> None:
    topic = t.topic("topic")
    group = ShareGroup(t)
    group.ready(topic)
    named = {"name": topic.name, "topic_id": topic.id, "partition_indexes": [0]}
    for step, topics in (("a topic", [named]), ("all", None)):
        body = {"groups": [{"group_id": group.group_id, "member_id": None, "member_epoch": -1, "topics": topics}]}
        t.call(step, "offset_fetch", v, body | {"require_stable": False})


@scenario("offset_commit", (9, 10))
def commits_to_share_groups(t: Talk, v: int) -> None:
    topic = t.topic("topic")
    group = ShareGroup(t)
    group.ready(topic)
    partition = {
        "partition_index": 0,
        "committed_offset": 1,
        "committed_leader_epoch": -1,
        "committed_metadata": "",
    }
    body = {"group_id": group.group_id, "generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
    topics = [{"name": topic.name, "topic_id": topic.id, "partitions": [partition]}]
    t.call("a commit", "offset_commit", v, body | {"topics": topics})
    t.call(
        "as a member",
        "offset_commit",
        v,
        body | {"topics": topics, "member_id": "m", "generation_id_or_member_epoch": 1},
    )
