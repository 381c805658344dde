"""Offsets of a consumer group (KIP-848), whose members are known by their epochs, and its administration."""

from __future__ import annotations

from typing import Any

from tests.conformance.consumer_members import LEAVES_FOR_A_WHILE, Consumer, Group
from tests.conformance.group_members import Party
from tests.conformance.runner import Talk, scenario
from tests.conformance.transactor import Transactor

LARGEST = 2**31 - 1
NOBODY = {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}


def by(member: Consumer, epoch: int | None = None) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "generation_id_or_member_epoch": member.epoch if epoch is None else epoch,
        "group_instance_id": None,
    }


def commit(t: Talk, step: str, v: int, group: str, topic: str, offset: int, **who: Any) -> None:
    place = {"partition_index": 0, "committed_offset": offset, "committed_leader_epoch": -1, "committed_metadata": ""}
    body = {"group_id": group, "retention_time": -1, "topics": [{"name": topic, "partitions": [place]}]}
    t.call(step, "offset_commit", v, body | who)


@scenario("offset_commit", range(2, 10))
def by_consumers(t: Talk, v: int) -> None:
    topic, other = t.topic("topic", 2), t.topic("other")
    group = Group(t, 1)
    a, b = group("a", topic), group("b", topic, instance_id="i")

    def commits(step: str, offset: int, **who: Any) -> None:
        commit(t, step, v, group.group_id, topic.name, offset, **who)

    a.join("a joins")
    commits("by a", 1, **by(a))
    commits("by a, of the epoch before", 2, **by(a, 0))
    commits("by a, of the epoch to come", 2, **by(a, 2))
    commits("by a, of no epoch", 2, **by(a, -1))
    commits("by a, of an odd epoch", 2, **by(a, -7))
    commits("by a stranger", 2, **by(a) | {"member_id": "stranger"})
    commits("by a stranger of no epoch", 2, **by(a, -1) | {"member_id": "stranger"})
    commits("by nobody", 2, **NOBODY)
    commits("by nobody, of the epoch", 2, **by(a) | {"member_id": ""})
    if v >= 7:
        commits("by a, with a strange instance id", 3, **by(a) | {"group_instance_id": "strange"})
    b.join("b joins")
    commits("by a, while the group is ahead", 4, **by(a))
    commits("by b, before it has anything", 5, **by(b))
    if v >= 7:
        commits("by b, with its instance id", 5, **by(b) | {"group_instance_id": "i"})
        commits("by a, with that of b", 5, **by(a) | {"group_instance_id": "i"})
    a.beat("a is told to revoke")
    commits("by a, which revokes", 6, **by(a))
    commits("by a, which revokes, of the epoch to come", 7, **by(a, 2))
    a.owns("a has revoked")
    commits("by a, of the epoch before the last", 7, **by(a, 1))
    commits("by a, of the last epoch", 8, **by(a))
    commit(t, "by a, of a topic it does not subscribe to", v, group.group_id, other.name, 1, **by(a))
    b.leave("b leaves for a while", LEAVES_FOR_A_WHILE)
    commits("by b, which is away", 9, **by(b, 2))
    commits("by b, which is away and says so", 9, **by(b, -2))
    b.leave("b leaves for good")
    a.leave("a leaves")
    commits("by a, which left", 10, **by(a, 2))
    commits("by nobody, as nobody is there", 11, **NOBODY)
    commits("by nobody, of an odd epoch", 12, **NOBODY | {"generation_id_or_member_epoch": -5})
    asked = {"groups": [{"group_id": group.group_id, "topics": None}]}
    t.call("what is committed", "offset_fetch", 8, asked)


@scenario("offset_fetch", range(1, 10))
def for_consumers(t: Talk, v: int) -> None:
    topic = t.topic("topic", 2)
    group = Group(t, 1)
    a, b = group("a", topic), group("b", topic)
    a.join("a joins")
    commit(t, "a commits", 9, group.group_id, topic.name, 1, **by(a))

    def fetches(step: str, member_id: str | None, epoch: int, **fields: Any) -> None:
        asked = [{"name": topic.name, "partition_indexes": [0, 1]}]
        named = {"group_id": group.group_id, "topics": asked}
        body = {"groups": [named | {"member_id": member_id, "member_epoch": epoch}]} if v >= 8 else named
        t.call(step, "offset_fetch", v, body | fields)

    fetches("nobody", None, -1)
    if v < 9:
        return
    fetches("a", "a", 1)
    fetches("a, stable", "a", 1, require_stable=True)
    for epoch in (0, 2, -1, -2, LARGEST):
        fetches(f"a, of epoch {epoch}", "a", epoch)
        fetches(f"nobody, of epoch {epoch}", None, epoch)
        fetches(f"an empty id, of epoch {epoch}", "", epoch)
        fetches(f"a stranger, of epoch {epoch}", "stranger", epoch)
    b.join("b joins")
    fetches("a, while the group is ahead", "a", 1)
    fetches("b", "b", 2)
    a.beat("a is told to revoke")
    fetches("a, which revokes, of the epoch to come", "a", 2)
    a.owns("a has revoked")
    fetches("a, of the epoch before", "a", 1)
    two = [{"group_id": group.group_id, "member_id": name, "member_epoch": 2, "topics": None} for name in ("a", "c")]
    two.append({"group_id": t.prefix + "none", "member_id": "a", "member_epoch": 1, "topics": None})
    t.call("a, a stranger and a stranger of no group", "offset_fetch", v, {"groups": two})
    t.call("all that a may see", "offset_fetch", v, {"groups": two[:1]})
    for m in (a, b):
        m.leave(f"{m.name} leaves")
    fetches("a, which left", "a", 2)
    fetches("nobody, as nobody is there", None, -1)
    fetches("an empty id, as nobody is there", "", -1)


@scenario("txn_offset_commit", range(6))
def of_consumers(t: Talk, v: int) -> None:
    topic = t.topic("topic")
    group = Group(t, 1)
    a = group("a", topic)
    a.join("a joins")
    tx = Transactor(t).start()
    if v < 5:
        tx.add_offsets("begun", 4)

    def commits(step: str, **who: Any) -> None:
        tx.commit_offsets(step, v, topic.name, 0, **who)

    commits("nobody")
    if v >= 3:
        commits("a", member_id="a", generation_id=1)
        for epoch in (0, 2, -1):
            commits(f"a, of epoch {epoch}", member_id="a", generation_id=epoch)
            commits(f"nobody, of epoch {epoch}", generation_id=epoch)
            commits(f"a stranger, of epoch {epoch}", member_id="stranger", generation_id=epoch)
        commits("an instance id alone", group_instance_id="i")
        commits("a, with a strange instance id", member_id="a", generation_id=1, group_instance_id="i")
    tx.ended("committed", 5 if v == 5 else 4, True)
    tx.committed("after", topic.name, 0)
    a.leave("a leaves")
    if v >= 3:
        if v < 5:
            tx.add_offsets("begun again", 4)
        commits("a, which left, of no epoch", member_id="a", generation_id=-1)
        commits("a, which left", member_id="a", generation_id=1)
        tx.ended("ended", 5 if v == 5 else 4, False)


@scenario("delete_groups", range(3))
def with_consumers_inside(t: Talk, v: int) -> None:
    topic, other = t.topic("topic", 2), t.topic("other")
    group = Group(t, 1)
    group.sees(topic, other)
    a, b = group("a", topic), group("b", topic, instance_id="i")
    a.join("a joins")

    def deletes(step: str, *names: str) -> None:
        topics = [{"name": name, "partitions": [{"partition_index": 0}]} for name in names]
        t.call(step, "offset_delete", 0, {"group_id": group.group_id, "topics": topics})

    for one in (topic, other):
        commit(t, f"a commits to {one.name.removeprefix(t.prefix)}", 9, group.group_id, one.name, 1, **by(a))
    t.call("with a member", "delete_groups", v, {"groups_names": [group.group_id]})
    deletes("offsets of a topic that is not subscribed", other.name)
    deletes("offsets of a topic that is", topic.name)
    deletes("offsets of both", topic.name, other.name, t.prefix + "nowhere")
    a.beat("a subscribes by an expression", subscribed_topic_names=[], subscribed_topic_regex=f"{t.prefix}o.*")
    t.until("resolved", lambda: group.described()["group_epoch"] == 4)
    deletes("offsets of a topic that matches", other.name)
    deletes("offsets of a topic that does no more", topic.name)
    b.join("b joins")
    b.leave("b leaves for a while", LEAVES_FOR_A_WHILE)
    a.leave("a leaves")
    t.call("with a member that is away", "delete_groups", v, {"groups_names": [group.group_id]})
    b.leave("b leaves for good")
    deletes("offsets while nobody is there", topic.name)
    t.call("Empty", "delete_groups", v, {"groups_names": [group.group_id]})
    t.call("gone", "delete_groups", v, {"groups_names": [group.group_id]})
    group.describe("nothing is left")
    a.beat("a goes on")
    a.join("a joins anew")
    group.describe("a new one of that name")


def listed(t: Talk, v: int, step: str, **filters: Any) -> None:
    groups = t.main.call("list_groups", v, {"states_filter": [], "types_filter": []} | filters)["groups"]
    t.keep(step, sorted((one for one in groups if one["group_id"].startswith(t.prefix)), key=str))


@scenario("list_groups", range(6))
def of_every_kind(t: Talk, v: int) -> None:
    topic = t.topic("topic", 2)
    groups = {name: Group(t, 1, name) for name in ("stable", "empty", "assigning", "reconciling")}
    members = {name: [group(one, topic) for one in "ab"] for name, group in groups.items()}
    for name, (a, b) in members.items():
        a.join(f"{name}: a joins")
        if name != "stable":
            b.join(f"{name}: b joins")
    for m in (*members["empty"], members["assigning"][0]):
        m.leave(f"{m.group.group_id.removeprefix(t.prefix)}: {m.name} leaves")
    classic = Party(t, 7, "classic")
    c = classic("c")
    c.join("classic: c joins")
    c.sync("classic: c assigns", c)
    for name, group in groups.items():
        group.describe(f"{name}, described")
    listed(t, v, "all")
    if v >= 4:
        for state in (
            "Stable",
            "STABLE",
            "stable ",
            "Empty",
            "Assigning",
            "reconciling",
            "Dead",
            "Unknown",
            "Not Ready",
        ):
            listed(t, v, f"state {state!r}", states_filter=[state])
        listed(t, v, "two states", states_filter=["Assigning", "PreparingRebalance"])
    if v >= 5:
        for kind in ("consumer", "CONSUMER", "Consumer ", "classic", "share", "streams", "unknown", ""):
            listed(t, v, f"type {kind!r}", types_filter=[kind])
        listed(t, v, "both types", types_filter=["classic", "consumer"])
        listed(t, v, "state and type", types_filter=["consumer"], states_filter=["stable"])


@scenario("describe_groups", range(7))
def that_are_not_classic(t: Talk, v: int) -> None:
    """By the API of classic groups."""
    topic = t.topic("topic", 2)
    group, empty = Group(t, 1), Group(t, 1, "empty")
    group("a", topic).join("a joins")
    m = empty("m", topic)
    m.join("m joins")
    m.leave("m leaves")
    for one in (group, empty):
        name = one.group_id.removeprefix(t.prefix)
        for operations in (False, True)[: 1 + (v >= 3)]:
            body = {"groups": [one.group_id], "include_authorized_operations": operations}
            t.call(f"{name}, operations {operations}", "describe_groups", v, body)
    t.call("its coordinator", "find_coordinator", 4, {"key_type": 0, "coordinator_keys": [group.group_id]})
