"""ShareGroupHeartbeat and ShareGroupDescribe (KIP-932): who is in a share group, and what each is assigned."""

from __future__ import annotations

from tests.conformance.consumer_members import Group
from tests.conformance.runner import Talk, scenario
from tests.conformance.share_members import LEAVES, ShareGroup


@scenario("share_group_heartbeat", (1,))
def share_member_alone(t: Talk, _: int) -> None:
    topic, other = t.topic("topic", 3), t.topic("other", 2)
    group = ShareGroup(t)
    group.describe("nobody yet")
    m = group("m", topic)
    m.join("joins")
    m.settle("gets its partitions")
    group.describe("Stable")
    m.beat("nothing new")
    m.join("everything again in epoch 0")
    m.beat("the same subscription", subscribed_topic_names=[topic.name])
    m.beat("the topic twice", subscribed_topic_names=[topic.name, topic.name])
    m.beat("a rack", rack_id="rack")
    m.beat("a topic that there is not", subscribed_topic_names=[topic.name, t.name("none")])
    group.describe("with a topic that there is not")
    m.topics = [topic.name, other.name]
    m.beat("another topic too", **m.subscription)
    m.settle("gets both")
    m.beat("no topics", subscribed_topic_names=[])
    group.describe("without topics")
    m.leave("leaves")
    group.describe("Empty")
    m.leave("leaves again")
    m.beat("goes on after all", member_epoch=1)
    m.join("joins again")
    group.describe("Stable again")


@scenario("share_group_heartbeat", (1,))
def share_epochs(t: Talk, _: int) -> None:
    topic = t.topic("topic", 2)
    group = ShareGroup(t)
    group.ready(topic)
    m = group("m", topic)
    m.join("joins")
    known = m.epoch
    for step, epoch in (("newer", known + 1), ("far ahead", known + 90), ("older", known - 3), ("-2", -2), ("-3", -3)):
        m.beat(step, member_epoch=epoch)
        m.epoch = known
    m.beat("another subscription", subscribed_topic_names=[topic.name, t.name("more")])
    newest = m.epoch
    m.beat("the epoch before", member_epoch=known)
    m.epoch = newest
    m.beat("the epoch before that", member_epoch=known - 1)
    m.epoch = newest
    stranger = group("stranger", topic)
    stranger.beat("a stranger", member_epoch=newest)
    stranger.leave("a stranger leaves")


@scenario("share_group_heartbeat", (1,))
def share_requests_that_are_refused(t: Talk, _: int) -> None:
    topic = t.topic("topic")
    group = ShareGroup(t)
    m = group("m", topic)
    m.beat("no subscription", member_epoch=0)
    m.beat("an empty subscription", member_epoch=0, subscribed_topic_names=[])
    m.beat("no member id", member_epoch=0, member_id="", **m.subscription)
    m.beat("a member id of 36", member_epoch=0, member_id="x" * 36, **m.subscription)
    m.beat("a member id of 37", member_epoch=0, member_id="x" * 37, **m.subscription)
    m.beat("no group id", member_epoch=0, group_id="", **m.subscription)
    m.beat("a blank group id", member_epoch=0, group_id="  ", **m.subscription)
    m.beat("an empty rack", member_epoch=0, rack_id="", **m.subscription)
    m.beat("a bad topic name", member_epoch=0, subscribed_topic_names=["a b", ""])
    m.beat("an internal topic", member_epoch=0, subscribed_topic_names=["__consumer_offsets"])
    nobody = ShareGroup(t, group="nobody's")("m", topic)
    nobody.beat("of no group", member_epoch=3)
    nobody.leave("leaves no group")


@scenario("share_group_heartbeat", (1,))
def shares_of_several(t: Talk, _: int) -> None:
    """Each partition has a member and each member a partition: how many, not which."""
    topic = t.topic("topic", 4)
    group = ShareGroup(t)
    group.ready(topic)
    members = [group(name, topic) for name in ("a", "b", "c")]
    held: dict[str, list[int]] = {}
    for count, member in enumerate(members, 1):
        member.ask(member_epoch=0, **member.subscription)
        for one in members[:count]:
            answer = one.ask(member_epoch=0, **one.subscription)
            held[one.member_id] = [i for p in answer["assignment"]["topic_partitions"] for i in p["partitions"]]
        taken = {index for indexes in held.values() for index in indexes}
        t.keep(f"{count} members", {"epoch": member.epoch, "sizes": sorted(map(len, held.values())), "all": len(taken)})
    members[0].leave("a leaves")
    held.pop("a")
    for one in members[1:]:
        answer = one.ask(member_epoch=0, **one.subscription)
        held[one.member_id] = [i for p in answer["assignment"]["topic_partitions"] for i in p["partitions"]]
    taken = {index for indexes in held.values() for index in indexes}
    t.keep("without a", {"sizes": sorted(map(len, held.values())), "all": len(taken)})
    more = [group(f"more {number}", topic) for number in range(6)]
    for one in more:
        one.ask(member_epoch=0, **one.subscription)
    sizes = []
    for one in [*members[1:], *more]:
        answer = one.ask(member_epoch=0, **one.subscription)
        sizes.append(sum(len(p["partitions"]) for p in answer["assignment"]["topic_partitions"]))
    t.keep("more members than partitions", sorted(sizes))


@scenario("share_group_describe", (1,))
def share_groups_among_others(t: Talk, v: int) -> None:
    topic = t.topic("topic", 2)
    shares, consumers = ShareGroup(t), Group(t, 1, "consumers")
    shares.ready(topic)
    m = shares("m", topic)
    m.join("joins")
    c = consumers("c", topic)
    c.ask(**{"member_epoch": 0, "topic_partitions": []} | c.subscription)
    body = {"group_ids": [consumers.group_id, shares.group_id], "include_authorized_operations": True}
    t.call("both kinds", "share_group_describe", v, body, pick=_states)
    t.call("as a consumer group", "consumer_group_describe", 1, {"group_ids": [shares.group_id]})
    for version in (5, 6):
        t.call(f"as a classic group, {version}", "describe_groups", version, {"groups": [shares.group_id]})
    c.ask(member_epoch=LEAVES)
    m.leave("leaves")
    taken = ShareGroup(t, group="consumers")("m", topic)
    taken.join("a share member in an empty consumer group")
    other = Group(t, 1, "shares")("c", topic)
    other.beat("a consumer in an empty share group", **{"member_epoch": 0, "topic_partitions": []} | other.subscription)
    joins = {
        "group_id": shares.group_id,
        "session_timeout": 10_000,
        "rebalance_timeout": 10_000,
        "member_id": "",
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"\0\0"}],
    }
    t.call("a classic member in an empty share group", "join_group", 9, joins)
    beats = {"group_id": shares.group_id, "generation_id": 1, "member_id": "m", "group_instance_id": None}
    t.call("a classic heartbeat", "heartbeat", 4, beats)


def _states(answer: dict[str, object]) -> object:
    groups = answer["groups"]
    assert isinstance(groups, list)
    for group in groups:
        for member in group["members"]:
            member["client_host"] = "<host>"
    return answer


@scenario("list_groups", (4, 5))
def lists_of_share_groups(t: Talk, v: int) -> None:
    topic = t.topic("topic")
    group = ShareGroup(t)
    group.ready(topic)

    def ours(answer: dict[str, object]) -> object:
        groups = answer["groups"]
        assert isinstance(groups, list)
        return [one for one in groups if one["group_id"].startswith(t.prefix)]

    def ask(step: str, **filters: list[str]) -> None:
        if v < 5:
            filters.pop("types_filter", None)
        t.call(step, "list_groups", v, filters, pick=ours)

    ask("Empty")
    ask("Empty ones", states_filter=["empty"])
    m = group("m", topic)
    m.join("joins")
    ask("Stable")
    ask("Stable ones", states_filter=["STABLE"])
    ask("Empty ones, none", states_filter=["Empty"])
    ask("share ones", types_filter=["Share"])
    ask("consumer ones", types_filter=["consumer"])
    ask("a type that there is not", types_filter=["shares"])
    delete = {"groups_names": [group.group_id]}
    t.call("delete while there are members", "delete_groups", 2, delete)
    m.leave("leaves")
    t.call("delete", "delete_groups", 2, delete)
    t.call("delete again", "delete_groups", 2, delete)
    ask("gone")
