"""Groups whose members change from the classic protocol to KIP-848 and back, and members of both in one group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.conformance.consumer_members import LEAVES, LEAVES_FOR_A_WHILE, Classic, Group, wants
from tests.conformance.group_members import assignment, subscription
from tests.conformance.runner import Talk, scenario

VERSIONS = (0, 1)
RANGE = "range"


@scenario("consumer_group_heartbeat", VERSIONS)
def up_and_down(t: Talk, v: int) -> None:
    topic = t.topic("topic", 6)
    group = Group(t, v)
    party = Classic(group)
    c, m = party.leads("c", topic, 6), group("m", topic)
    m.join("m joins: the group goes over")
    group.describe("both are in it")
    party.describe("by the other API")
    c.heartbeat("c is told to join")
    c.sync("c syncs instead")
    m.beat("m waits")
    c.join("c joins, and owns all", protocols=wants(topic, owned={topic.name: range(6)}))
    group.describe("c is to revoke")
    c.heartbeat("c beats before it syncs")
    c.sync("c gets less")
    c.heartbeat("c is told to join again, as it has revoked")
    c.join("c joins, and owns less", protocols=wants(topic, owned={topic.name: range(3)}))
    c.sync("c gets the same")
    m.beat("m gets its share")
    c.heartbeat("c beats in peace")
    group.describe("Stable")
    d = party("d", protocols=wants(topic))
    d.join("d joins")
    d.sync("d gets nothing yet")
    d.heartbeat("d beats in peace, and waits")
    c.heartbeat("c is told to join for d")
    c.join("c joins, and owns three", protocols=wants(topic, owned={topic.name: range(3)}))
    c.sync("c gets two")
    c.join("c joins, and owns two", protocols=wants(topic, owned={topic.name: range(2)}))
    c.sync("c gets the same two")
    d.heartbeat("d may have what c had")
    d.join("d joins for it", protocols=wants(topic, owned={}))
    d.sync("d gets it")
    m.beat("m is told to revoke")
    m.owns("m has revoked")
    d.heartbeat("d is told to join")
    d.join("d joins again", protocols=wants(topic, owned={topic.name: [2]}))
    d.sync("d gets its share")
    group.describe("three are in it")
    m.leave("m leaves: the group goes back")
    group.describe("no consumer group any more")
    party.describe("a classic group")
    m.beat("m goes on after all", member_epoch=3)
    for one in (c, d):
        one.heartbeat(f"{one.name} is told to join a classic group")
    c.send_join()
    c.waits("c waits for d")
    d.send_join()
    answers = [one.answered() for one in (c, d)]
    told = [(answer["error_code"], answer["generation_id"], answer["protocol_name"]) for answer in answers]
    t.keep("both joined", [*map(list, told), len({answer["leader"] for answer in answers})])


@scenario("consumer_group_heartbeat", VERSIONS)
def goes_over_in_a_rebalance(t: Talk, v: int) -> None:
    topic = t.topic("topic", 6)
    waiting_to_join = Group(t, v, "join")
    party = Classic(waiting_to_join)
    a, b = party.leads("a", topic, 6), party("b", protocols=wants(topic))
    b.enter("b")
    party.describe("b waits for a")
    waiting_to_join("m", topic, server_assignor=RANGE).join("m joins")
    b.receive("b is told to join once more")
    waiting_to_join.describe("the rebalance is over")
    a.heartbeat("a is told to join")
    b.heartbeat("b beats")
    b.join("b joins", protocols=wants(topic, owned={}))
    b.sync("b syncs")
    waiting_to_sync = Group(t, v, "sync")
    party = Classic(waiting_to_sync)
    c = party("c", protocols=wants(topic))
    d = party("d", protocols=wants(topic))
    c.join("c joins")
    d.enter("d")
    c.send_join()
    c.receive("c joined")
    d.receive("d joined")
    d.send_sync()
    d.waits("d waits for its share")
    party.describe("nothing is assigned")
    waiting_to_sync("m", topic, server_assignor=RANGE).join("m joins while shares are awaited")
    d.receive("d is told to join once more")
    c.sync("c assigns in vain", c)
    waiting_to_sync.describe("nobody has anything but m")
    for one in (c, d):
        one.join(f"{one.name} joins again", protocols=wants(topic, owned={}))
        one.sync(f"{one.name} gets its share")
    waiting_to_sync.describe("all in epoch or not")


@scenario("consumer_group_heartbeat", VERSIONS)
def goes_not_over(t: Talk, v: int) -> None:
    topic = t.topic("topic", 2)

    def tries(step: str, assigned: bytes, **fields: Any) -> None:
        group = Group(t, v, step)
        party = Classic(group)
        c = party("c")
        c.join(f"{step}: c joins", **fields)
        share = {"member_id": c.member_id, "assignment": assigned}
        kind = {"protocol_type": "connect", "protocol_name": "x"} if "protocol_type" in fields else {}
        c.sync(f"{step}: c assigns", assignments=[share], **kind)
        m = group("m", topic, server_assignor=RANGE)
        m.beat(f"{step}: m goes on", member_epoch=1)
        m.leave(f"{step}: m leaves")
        m.join(f"{step}: m joins")
        party.describe(f"{step}: by the classic API")
        group.describe(f"{step}: by the other")
        c.heartbeat(f"{step}: c beats")

    good = wants(topic)[0]["metadata"]
    share = b"\0\0\0\0\0\1" + len(topic.name).to_bytes(2, "big") + topic.name.encode() + b"\0\0\0\1\0\0\0\0"
    tries("another protocol type", b"", protocol_type="connect", protocols=[{"name": "x", "metadata": b"y"}])
    tries("no assignment", b"", protocols=[{"name": RANGE, "metadata": good}])
    tries("an assignment of no kind", b"share", protocols=[{"name": RANGE, "metadata": good}])
    tries("a version alone", b"\0\0", protocols=[{"name": RANGE, "metadata": good}])
    tries("a newer version", b"\0\x09" + share[2:] + b"\xff" * 4, protocols=[{"name": RANGE, "metadata": good}])
    tries("user data of an assignor", share + b"\0\0\0\1x", protocols=[{"name": RANGE, "metadata": good}])
    tries("empty user data", share + b"\0\0\0\0", protocols=[{"name": RANGE, "metadata": good}])
    own = good[:-4] + b"\0\0\0\1x"
    tries("user data of a subscription", share + b"\xff" * 4, protocols=[{"name": RANGE, "metadata": own}])
    tries("a subscription of no kind", b"", protocols=[{"name": RANGE, "metadata": b"\0\0\0\0"}])
    absurd = b"\0\1" + good[2:] + b"\x40\0\0\0"
    tries("more owned topics than bytes", b"", protocols=[{"name": RANGE, "metadata": absurd}])
    tries("more assigned topics than bytes", b"\0\0\x40\0\0\0", protocols=[{"name": RANGE, "metadata": good}])
    unknown = subscription("nowhere", topic.name)
    tries("a topic that is not there", share + b"\xff" * 4, protocols=[{"name": RANGE, "metadata": unknown}])
    nowhere = b"\0\0\0\0\0\1\0\7nowhere\0\0\0\1\0\0\0\0" + b"\xff" * 4
    tries("an assigned topic that is not there", nowhere, protocols=[{"name": RANGE, "metadata": unknown}])


@scenario("consumer_group_heartbeat", VERSIONS)
def goes_over_with_odd_shares(t: Talk, v: int) -> None:
    """How many partitions each member is to have; which ones depends on ids that the broker makes up."""
    topic = t.topic("topic", 6)

    def goes_over(step: str, indexes: Sequence[int]) -> None:
        group = Group(t, v, step)
        c = Classic(group)("c", protocols=wants(topic))
        c.join(f"{step}: c joins")
        share = {"member_id": c.member_id, "assignment": assignment({topic.name: indexes})}
        c.sync(f"{step}: c assigns", assignments=[share])
        m = group("m", topic)
        answer = m.ask(member_epoch=0, topic_partitions=[], **m.subscription)
        t.keep(f"{step}: m joins", {key: answer[key] for key in ("error_code", "error_message", "member_epoch")})
        targets = [one["target_assignment"]["topic_partitions"] for one in group.described()["members"]]
        t.keep(f"{step}: targets", sorted(sum(len(one["partitions"]) for one in target) for target in targets))

    goes_over("no partitions", ())
    goes_over("a partition twice", (0, 0, 1))
    goes_over("a partition that there is not", (5, 6))


@scenario("consumer_group_heartbeat", VERSIONS)
def who_wants_nothing_comes_after_going_over(t: Talk, v: int) -> None:
    """Member m keeps its topic only where the broker knows that subscriptions differ, though none changed since."""
    topic, other = t.topic("topic", 6), t.topic("other")
    group = Group(t, v)
    c = Classic(group)("c", protocols=wants(other))
    c.join("c joins")
    m = group("m", topic)
    m.join("m joins: the group goes over")
    c.leave("c leaves")
    group("n").join("n joins, and wants nothing")
    group.describe("m has all")
    m.beat("m goes on")


@scenario("consumer_group_heartbeat", VERSIONS)
def goes_not_over_in_a_rebalance(t: Talk, v: int) -> None:
    """A member that waits for it is told to join again all the same."""
    topic = t.topic("topic", 2)
    group = Group(t, v)
    party = Classic(group)
    c, d = party("c", protocols=wants(topic)), party("d", protocols=wants(topic))
    c.join("c joins")
    c.sync("c assigns nonsense", assignments=[{"member_id": c.member_id, "assignment": b"share"}])
    d.enter("d")
    group("m", topic, server_assignor=RANGE).join("m joins")
    d.receive("d is told to join once more")
    party.describe("the rebalance goes on")
    d.send_join()
    d.waits("d waits again")
    c.send_join()
    c.receive("c joined")
    d.receive("d joined")


@scenario("consumer_group_heartbeat", VERSIONS)
def empty_groups(t: Talk, v: int) -> None:
    """They become the kind of the member that joins, and keep their offsets."""
    topic = t.topic("topic", 2)
    group = Group(t, v)
    party = Classic(group)
    place = {"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}
    topics = [{"name": topic.name, "partitions": [place]}]
    nobody = {"group_id": group.group_id, "generation_id_or_member_epoch": -1, "member_id": "", "topics": topics}

    def offsets(step: str) -> None:
        t.call(step, "offset_fetch", 8, {"groups": [{"group_id": group.group_id, "topics": None}]})

    t.call("somebody commits", "offset_commit", 8, nobody)
    m = group("m", topic)
    m.beat("m goes on", member_epoch=1)
    m.leave("m leaves what was not its own")
    m.join("m joins a group of offsets alone")
    group.describe("m is in it")
    offsets("they are kept")
    m.leave("m leaves")
    c = party("c", protocols=wants(topic))
    c.heartbeat("c beats")
    c.send_join(member_id="strange")
    c.receive("c joins with an id of its own")
    c.send_join(protocol_type="connect")
    c.receive("c joins with another type")
    c.join("c joins the empty consumer group")
    party.describe("c is in it")
    group.describe("a consumer group no more")
    c.sync("c assigns", c)
    offsets("they are kept still")
    c.leave("c leaves")
    party.until_members(0)
    m.beat("m goes on in the empty classic group", member_epoch=1)
    m.join("m joins the empty classic group")
    group.describe("m is in it again")
    party.describe("a classic group no more")
    offsets("they are kept for ever")


@scenario("consumer_group_heartbeat", VERSIONS)
def static_members_go_over(t: Talk, v: int) -> None:
    topic = t.topic("topic", 4)
    group = Group(t, v)
    party = Classic(group)
    c = party.leads("c", topic, 4, "i1")
    m = group("m", topic, instance_id="i1")
    m.beat("m takes the place in the midst of an epoch", member_epoch=1)
    m.join("m takes the place of c")
    group.describe("m is there, c is not")
    c.heartbeat("c is fenced")
    c.sync("c syncs")
    c.send_join(protocols=wants(topic, owned={topic.name: range(4)}))
    c.receive("c joins with its id")
    c.leave("c leaves")
    m.beat("m goes on", instance_id="i1")
    d = party("d", "i2", protocols=wants(topic))
    d.join("d joins")
    d.sync("d waits for its share")
    m.beat("m is told to revoke", instance_id="i1")
    m.beat("m has revoked", instance_id="i1", topic_partitions=m.assigned)
    d.heartbeat("d is told to join")
    d.join("d joins again", protocols=wants(topic, owned={}))
    d.sync("d gets its share")
    m.leave("m leaves for a while", LEAVES_FOR_A_WHILE)
    group.describe("still a consumer group")
    d.heartbeat("d notices nothing")
    d2 = party("d2", "i2", protocols=wants(topic))
    d2.join("d comes back")
    d2.sync("d gets its share again")
    d.heartbeat("d that was is fenced")
    group.describe("d came back")
    c2 = party("c2", "i1", protocols=wants(topic))
    c2.join("c takes the place of m: the group goes back")
    party.describe("a classic group")
    group.describe("a consumer group no more")
    m.beat("m is fenced", member_epoch=3, instance_id="i1")
    c2.sync("c gets its share")
    d2.heartbeat("d beats")
    d2.sync("d syncs")
    m.leave("m leaves")


@scenario("join_group", range(10))
def to_a_consumer_group(t: Talk, v: int) -> None:
    topic = t.topic("topic", 3)
    group = Group(t, 1)
    m = group("m", topic)
    m.join("m joins")
    party = Classic(group, v)
    c = party("c", protocols=wants(topic))

    def asks(step: str, **fields: Any) -> None:
        c.send_join(**fields)
        c.receive(step)

    asks("a strange member id", member_id="strange")
    asks("another protocol type", protocol_type="connect")
    asks("no protocol type", protocol_type="")
    asks("no protocols", protocols=[])
    asks("a session too short", session_timeout=1)
    asks("the member id of m", member_id="m")
    if v >= 5:
        asks("a strange member id with an instance id", member_id="strange", group_instance_id="i")
    asks("a subscription of no kind", protocols=[{"name": RANGE, "metadata": b"\0"}])
    c.member_id = ""
    c.join("c joins")
    group.describe("both are in it")
    c.heartbeat("c beats in another epoch", generation_id=1)
    c.heartbeat("a stranger beats", member_id="strange")
    c.heartbeat("m beats", member_id="m", generation_id=1)
    c.sync("c syncs in another epoch", generation_id=1)
    c.sync("a stranger syncs", member_id="strange")
    c.sync("m syncs", member_id="m", generation_id=1)
    if v >= 5:
        c.heartbeat("c beats with a strange instance id", group_instance_id="i")
        c.sync("c syncs with a strange instance id", group_instance_id="i")
        c.sync("c syncs with another protocol type", protocol_type="connect")
        c.sync("c syncs with another protocol", protocol_name="roundrobin")
    c.sync("c syncs with no protocol", protocol_type=None, protocol_name=None)
    c.sync("c syncs")
    c.heartbeat("c beats")
    d = party("d", protocols=[{"name": "roundrobin", "metadata": subscription(topic.name)}])
    d.send_join()
    d.receive("a protocol that c has not")
    if v >= 3:
        gone = [{"member_id": name, "group_instance_id": None} for name in ("strange", "m", c.member_id, "")]
        c.leave("all are made to leave", *gone, {"member_id": "", "group_instance_id": "i"})
    else:
        c.leave("c leaves")
        c.leave("m is made to leave", {"member_id": "m"})
    group.describe("at the end")


@scenario("consumer_group_heartbeat", VERSIONS)
def of_the_other_kind(t: Talk, v: int) -> None:
    """A member uses the id of one of the other protocol, or changes its own protocol."""
    topic = t.topic("topic", 6)
    group = Group(t, v)
    party = Classic(group)
    c = party.leads("c", topic, 6)
    m = group("m", topic)
    m.join("m joins")
    for epoch in (1, 2, LEAVES_FOR_A_WHILE):
        m.beat(f"in the name of c, epoch {epoch}", member_id=c.member_id, member_epoch=epoch)
    c.heartbeat("c is still there")
    place = {"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}
    topics = [{"name": topic.name, "partitions": [place]}]
    for version in (8, 9):
        for name, epoch in ((c.member_id, 1), (c.member_id, 2), ("m", 2), ("m", 1)):
            who = {"group_id": group.group_id, "member_id": name, "generation_id_or_member_epoch": epoch}
            step = f"{party.readable(name)} commits of epoch {epoch}, version {version}"
            t.call(step, "offset_commit", version, who | {"topics": topics})
    for name, epoch in ((c.member_id, 1), (c.member_id, 2), ("m", 2), ("m", 1)):
        named = {"group_id": group.group_id, "member_id": name, "member_epoch": epoch, "topics": None}
        t.call(f"{party.readable(name)} fetches of epoch {epoch}", "offset_fetch", 9, {"groups": [named]})
    c2 = group(c.member_id, topic)
    c2.name = "c"
    c2.join("c goes over by its own id")
    group.describe("both are consumers")
    c.heartbeat("c beats as before")
    d = party("d", protocols=wants(topic))
    d.join("d joins")
    m.beat("in the name of d: leaves", member_id=d.member_id, member_epoch=LEAVES)
    group.describe("d has left")
    d.member_id = ""
    d.join("d joins again")
    m.leave("m leaves")
    group.describe("c is a consumer, d is not")
    c.leave("c leaves by the classic API")
    party.describe("d is alone in a classic group")
    d.heartbeat("d is told to join")
    d.join("d joins the classic group")
