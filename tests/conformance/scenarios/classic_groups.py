"""JoinGroup 0-9, SyncGroup 0-5, Heartbeat 0-4 and LeaveGroup 0-5: conversations of the members of a classic group."""

from __future__ import annotations

from tests.conformance import schema
from tests.conformance.group_members import SHORT, Party
from tests.conformance.runner import Talk, scenario

VERSIONS = range(10)


@scenario("join_group", VERSIONS)
def refused(t: Talk, v: int) -> None:
    party = Party(t, v)
    m = party("m")
    m.send_join(group_id="")
    m.receive("no group id")
    for timeout in (-1, 0, 5_999, 1_800_001):
        m.send_join(session_timeout=timeout)
        m.receive(f"session timeout {timeout}")
    m.send_join(member_id="stranger")
    m.receive("a member id in a group that is not there")
    party.describe("no group yet")
    m.send_join(protocols=[])
    m.receive("no protocols")
    t.until("the group is there", lambda: party.described()["group_state"] != "Dead")
    party.describe("after a refused join")
    m.send_join(protocol_type="")
    m.receive("no protocol type")
    m.send_join(member_id="stranger")
    m.receive("a member id in an empty group")
    m.join("joined")
    other = party("other")
    other.send_join(protocol_type="connect")
    other.receive("another protocol type")
    other.send_join(protocols=[{"name": "roundrobin", "metadata": b""}])
    other.receive("no protocol in common")
    other.send_join(member_id="stranger")
    other.receive("a member id nobody has")
    if v >= 5:
        other.send_join(member_id="stranger", group_instance_id="i")
        other.receive("a member id for an unknown instance")
        other.send_join(member_id=m.member_id, group_instance_id="i")
        other.receive("a known member id for an unknown instance")
    party.describe("while assignments are awaited")


@scenario("join_group", VERSIONS)
def alone(t: Talk, v: int) -> None:
    party = Party(t, v)
    m = party("m")
    m.join("join")
    party.describe("CompletingRebalance")
    m.join("join again")
    m.heartbeat("heartbeat before the sync")
    m.sync("sync of an old generation", m, generation_id=0)
    m.sync("sync of a stranger", m, member_id="stranger")
    m.sync("sync with another protocol", m, protocol_name="roundrobin")
    m.sync("sync with another protocol type", m, protocol_type="connect")
    m.sync("sync with no protocol", m, protocol_name=None, protocol_type=None)
    m.sync("sync", m)
    party.describe("Stable")
    m.sync("sync again")
    m.heartbeat("heartbeat")
    m.heartbeat("heartbeat of an old generation", generation_id=0)
    m.heartbeat("heartbeat of a stranger", member_id="stranger")
    m.heartbeat("heartbeat with no group id", group_id="")
    m.sync("sync with no group id", group_id="")
    m.heartbeat("heartbeat to no group", group_id=t.prefix + "none")
    m.sync("sync to no group", group_id=t.prefix + "none")
    m.join("the leader joins a stable group")
    m.sync("sync of the next generation", m)
    party("stranger").leave("leave of a stranger")
    m.leave("leave")
    party.describe("Empty")
    m.leave("leave again")
    m.heartbeat("heartbeat to an empty group")
    m.sync("sync to an empty group")
    m.send_join()
    m.receive("join with the old member id")
    m.member_id = ""
    m.join("join anew")
    m.leave("leave at last")
    m.member_id = ""
    m.join("a protocol whose name is empty", protocols=[{"name": "", "metadata": b""}])
    m.sync("its sync", m, protocol_name="")


@scenario("join_group", VERSIONS)
def together(t: Talk, v: int) -> None:
    party = Party(t, v)
    a, b, c = party("a"), party("b"), party("c")
    a.join("a alone")
    b.enter("b")
    b.waits("b waits")
    a.sync("a syncs too late", a)
    a.heartbeat("a is told to join")
    party.describe("PreparingRebalance")
    c.enter("c")
    a.send_join()
    for member in (a, b, c):
        member.receive(f"{member.name} joined")
    b.send_sync()
    b.waits("b waits for its share")
    a.sync("a assigns", a, b, c)
    b.receive("b gets its share")
    c.sync("c gets its share")
    c.join("c lost the answer to its join")
    c.sync("c gets its share again")
    party.describe("Stable")
    c.send_join(protocols=[{"name": "range", "metadata": b"else"}])
    c.waits("c with other metadata waits")
    a.heartbeat("a is told to join again")
    b.leave("b leaves")
    party.until_members(2)
    a.join("a joins again")
    c.receive("c joined again")
    a.leave("the leader leaves")
    c.heartbeat("c is told that the leader left")
    c.join("c leads")
    c.sync("c assigns", c)


@scenario("join_group", VERSIONS)
def not_all_support(t: Talk, v: int) -> None:
    party = Party(t, v)
    a = party("a", protocols=("range", "sticky", "roundrobin"))
    b = party("b", protocols=("cooperative-sticky", "roundrobin"))
    a.join("a alone")
    b.enter("b")
    a.send_join()
    a.receive("a")
    b.receive("b")
    c = party("c", protocols=("range",))
    c.send_join()
    c.receive("c supports what only a does")


@scenario("join_group", range(3, 10))
def leaving(t: Talk, v: int) -> None:
    party = Party(t, v)
    a, b, c = party("a"), party("b"), party("c")
    a.join("a alone")
    b.enter("b")
    c.enter("c")
    a.send_join()
    for member in (a, b, c):
        member.receive(f"{member.name} joined")
    a.leave("two leave", {"member_id": b.member_id, "group_instance_id": None}, {"member_id": c.member_id})
    a.leave("they are gone", {"member_id": b.member_id, "group_instance_id": None}, {"member_id": c.member_id})
    a.sync("a assigns in vain", a)
    d = party("d")
    d.enter("d")
    d.waits("d waits")
    d2 = party("d2")
    d2.send("leave_group", {"members": [{"member_id": d.member_id or "none"}]})
    d2.receive("d is made to leave")
    d.receive("d is told" if v >= 4 else "d is not", 5 if v >= 4 else SHORT)
    a.leave("the last leaves")
    party.describe("Empty or not")


@scenario("join_group", range(4, 10))
def member_ids(t: Talk, v: int) -> None:
    party = Party(t, v)
    a, pending = party("a"), party("pending")
    a.join("a alone")
    a.sync("a assigns", a)
    pending.send_join()
    pending.receive("an id is given")
    party.describe("the group goes on")
    a.send_join()
    a.waits("a waits for the pending member")
    pending.leave("the pending member leaves")
    a.receive("a goes on")
    pending.send_join()
    pending.receive("its id is good no more")
    empty = party("")
    empty.send_join()
    empty.receive("a client with no name")
    empty.wire.send(
        schema.encode_request(
            "join_group",
            v,
            {
                "group_id": party.group_id,
                "member_id": "",
                "session_timeout": 10_000,
                "rebalance_timeout": 10_000,
                "protocol_type": "consumer",
                "protocols": [{"name": "range", "metadata": b""}],
            },
        ),
        client_id=None,
    )
    empty._sent = ("join_group", v, 2)
    empty.receive("a client without a name")


@scenario("join_group", (4, 9))
def subscriptions(t: Talk, v: int) -> None:
    for name, metadata in {
        "no bytes": b"",
        "one byte": b"\0",
        "a version alone": b"\0\0",
        "half a count": b"\0\0\0\0",
        "a name cut short": b"\0\0\0\0\0\1\0\5ab",
        "no user data": b"\0\0\0\0\0\1\0\2ab",
        "not UTF-8": b"\0\0\0\0\0\1\0\2\xff\xfe\xff\xff\xff\xff",
        "words": b"some words that are no subscription",
    }.items():
        party = Party(t, v, name.replace(" ", "-"))
        m = party("m")
        m.join(name, protocols=[{"name": "range", "metadata": metadata}])
        m.sync(f"{name}: sync", m)


@scenario("join_group", (4, 9))
def subscriptions_cut_short(t: Talk, v: int) -> None:
    """What is known of them shows in OffsetDelete."""
    mine, other = t.topic("mine").name, t.topic("other").name
    named = b"\0\0\0\0\0\1" + len(mine).to_bytes(2, "big") + mine.encode()
    topics = [{"name": topic, "partitions": [{"partition_index": 0}]} for topic in (mine, other)]
    for name, metadata in {
        "whole": named + b"\xff\xff\xff\xff",
        "a version alone": b"\0\0",
        "no user data": named,
        "half a length of user data": named + b"\0\0",
        "user data cut short": named + b"\0\0\0\5xy",
        "user data of length -2": named + b"\xff\xff\xff\xfe",
        "bytes behind": named + b"\0\0\0\2xyz",
        "version 1 without what is owned": b"\0\1" + named[2:] + b"\0\0\0\0",
        "version 99": b"\0\x63" + named[2:] + b"\0\0\0\0",
        "version -1": b"\xff\xff" + named[2:] + b"\0\0\0\0",
    }.items():
        party = Party(t, v, name.replace(" ", "-"))
        m = party("m")
        m.join(name, protocols=[{"name": "range", "metadata": metadata}])
        t.call(f"{name}: subscribed", "offset_delete", 0, {"group_id": party.group_id, "topics": topics})
