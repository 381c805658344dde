"""Offsets and administration of a group that has members, in each of its states."""

from __future__ import annotations

from typing import Any

from tests.conformance.group_members import Member, Party
from tests.conformance.runner import Talk, scenario


def commit(t: Talk, step: str, v: int, member: Member, topic: str, offset: int, **fields: Any) -> None:
    """By the member, in its generation, unless told otherwise."""
    place = {"partition_index": 0, "committed_offset": offset, "committed_leader_epoch": -1, "committed_metadata": ""}
    body = {
        "group_id": member.party.group_id,
        "generation_id_or_member_epoch": member.generation,
        "member_id": member.member_id,
        "group_instance_id": member.instance,
        "retention_time": -1,
        "topics": [{"name": topic, "partitions": [place]}],
    }
    t.call(step, "offset_commit", v, body | fields)


NOBODY = {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}


def of(generation: int) -> dict[str, Any]:
    return {"generation_id_or_member_epoch": generation}


@scenario("offset_commit", range(2, 10))
def by_members(t: Talk, v: int) -> None:
    topic = t.topic("topic").name
    party = Party(t, min(v, 9))
    static = "i" if v >= 7 else None
    a, b = party("a", static), party("b")
    a.join("a joins")
    commit(t, "while assignments are awaited", v, a, topic, 1)
    commit(t, "while assignments are awaited, by nobody", v, a, topic, 1, **NOBODY)
    a.sync("a assigns", a)
    commit(t, "in a stable group", v, a, topic, 2)
    commit(t, "of the last generation", v, a, topic, 3, **of(0))
    commit(t, "of no generation", v, a, topic, 3, **of(-1))
    commit(t, "by a stranger", v, a, topic, 3, member_id="stranger")
    commit(t, "by nobody, of the generation", v, a, topic, 3, member_id="")
    commit(t, "by nobody", v, a, topic, 3, **NOBODY)
    if v >= 7:
        commit(t, "with an unknown instance id", v, a, topic, 3, group_instance_id="unknown")
        commit(t, "by a stranger with a known instance id", v, a, topic, 3, group_instance_id="i", member_id="stranger")
        commit(t, "with an instance id alone", v, a, topic, 3, **NOBODY | {"group_instance_id": "i"})
    b.enter("b")
    commit(t, "while a rebalance is prepared", v, a, topic, 4)
    commit(t, "by who joins", v, a, topic, 5, member_id=b.member_id or "stranger", group_instance_id=None)
    a.join("a joins again")
    b.receive("b joins")
    commit(t, "of the generation before", v, a, topic, 6, **of(1))
    a.leave("a leaves")
    commit(t, "by who left", v, a, topic, 6)
    b.leave("b leaves")
    party.until_members(0)
    commit(t, "in an empty group", v, a, topic, 6)
    commit(t, "in an empty group by nobody", v, a, topic, 7, **NOBODY)
    asked: dict[str, Any] = {"group_id": party.group_id, "topics": None, "require_stable": False}
    asked |= {"groups": [{"group_id": party.group_id, "topics": None}]}
    t.call("what is committed", "offset_fetch", 8, asked)


@scenario("describe_groups", range(7))
def with_members(t: Talk, v: int) -> None:
    party = Party(t, 7)

    def describe(step: str) -> None:
        body = {"groups": [party.group_id], "include_authorized_operations": v >= 3}
        t.keep(step, party.readable(t.main.call("describe_groups", v, body)["groups"][0]))

    a, b = party("a", "i"), party("b")
    a.join("a joins")
    describe("CompletingRebalance")
    a.sync("a assigns", a)
    describe("Stable")
    b.enter("b")
    describe("PreparingRebalance")
    a.join("a joins again")
    b.receive("b joins")
    b.send_sync()
    a.sync("a assigns again", a, b)
    b.receive("b gets its share")
    describe("Stable with two")
    a.leave("both leave", *({"member_id": m.member_id, "group_instance_id": None} for m in (a, b)))
    party.until_members(0)
    describe("Empty")


@scenario("delete_groups", range(3))
def with_members_inside(t: Talk, v: int) -> None:
    topic = t.topic("topic").name
    party = Party(t, 7)
    a = party("a")
    a.join("a joins")
    t.call("CompletingRebalance", "delete_groups", v, {"groups_names": [party.group_id]})
    a.sync("a assigns", a)
    commit(t, "a commits", 8, a, topic, 1)
    t.call("Stable", "delete_groups", v, {"groups_names": [party.group_id]})
    t.call("offsets of a topic that is not subscribed", "offset_delete", 0, deletion(party, topic))
    t.call("offsets of a topic that is", "offset_delete", 0, deletion(party, "topic"))
    a.leave("a leaves")
    party.until_members(0)
    t.call("Empty", "delete_groups", v, {"groups_names": [party.group_id]})
    party.describe("gone")
    a.heartbeat("a beats")


def deletion(party: Party, topic: str) -> dict[str, Any]:
    return {"group_id": party.group_id, "topics": [{"name": topic, "partitions": [{"partition_index": 0}]}]}


@scenario("list_groups", range(6))
def in_every_state(t: Talk, v: int) -> None:
    parties = {state: Party(t, 7, state) for state in ("completing", "stable", "preparing", "empty")}
    members = {state: party("m") for state, party in parties.items()}
    for state, member in members.items():
        member.join(f"{state}: joins")
        if state != "completing":
            member.sync(f"{state}: assigns", member)
    parties["preparing"]("n").enter("n")
    members["empty"].leave("leaves")
    parties["empty"].until_members(0)

    def listed(step: str, **filters: Any) -> None:
        groups = t.main.call("list_groups", v, {"states_filter": [], "types_filter": []} | filters)["groups"]
        t.keep(step, sorted((one for one in groups if one["group_id"].startswith(t.prefix)), key=str))

    listed("all")
    if v >= 4:
        for state in ("Stable", "stable", "PreparingRebalance", "COMPLETINGREBALANCE", "Empty", "Dead", "Unknown", ""):
            listed(f"state {state!r}", states_filter=[state])
        listed("two states", states_filter=["Empty", "Stable"])
    if v >= 5:
        for kind in ("classic", "Classic", "consumer", "unknown", ""):
            listed(f"type {kind!r}", types_filter=[kind])
        listed("state and type", states_filter=["Stable"], types_filter=["classic"])
