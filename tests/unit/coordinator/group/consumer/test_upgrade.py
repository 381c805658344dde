"""A classic group becomes a consumer group while it runs; an empty group is what its next member makes it."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from structlog.testing import capture_logs

from coordinator.group.classic.members import JoinAnswer, JoinRequest, MemberProtocol
from coordinator.group.modern.group import MemberState
from protocol.coordinator_records.consumer_group_records import ClassicMemberMetadata
from protocol.errors import GroupIdNotFound, MessageTooLarge
from tests.unit.coordinator.group.consumer.clients import (
    ClassicConsumer,
    ConsumerClient,
    assignment,
    partitions_in,
    some,
    subscription,
)
from tests.unit.coordinator.group.consumer.rig import ConsumerRig, log_tells
from tests.unit.coordinator.group.offsets.rig import offset
from tests.unit.coordinator.group.rig import EMPTY, PREPARING, STABLE
from tests.unit.coordinator.group.steps import answer_of, refused, waits

NONE, REJOIN = ErrorCode.none, ErrorCode.rebalance_in_progress


async def classic_pair(rig: ConsumerRig, user_data: bytes = b"", **client: Any) -> list[ClassicConsumer]:
    """A Stable classic group of two members with half of the partitions each."""
    pair = [ClassicConsumer(rig, f"c{number}", "a", **{"version": 3, **client}) for number in (1, 2)]
    joins = [member.join() for member in pair]
    await rig.pass_ms(5)
    assert all(answer_of(join).error is NONE for join in joins)
    shares = {pair[0].member_id: assignment(some(0, 1), user_data), pair[1].member_id: assignment(some(2, 3))}
    for member in pair:
        member.owned = partitions_in(answer_of(member.sync(shares)).assignment)
    return pair


async def test_a_stable_classic_group_goes_on_as_a_consumer_group_with_what_everybody_has() -> None:
    rig = await ConsumerRig.having({"a": 4})
    pair = await classic_pair(rig, session_ms=10_000)
    rig.commit(offset(0, 7, "a"), member_id=pair[0].member_id, generation=1)
    assert refused(ConsumerClient(rig, "m1", "a").send(member_epoch=1)) is ErrorCode.group_id_not_found
    newcomer = ConsumerClient(rig, "m1", "a")
    assert newcomer.beat().assigned == {}
    assert rig.shard.groups.classic.by_id.get("readers") is None
    assert (rig.epochs, newcomer.epoch, rig.session_timers) == ((2, 2), 2, 0)
    for member, owned in zip(pair, ((0, 1), (2, 3)), strict=True):
        converted = rig.member(member)
        assert (converted.epoch, converted.state, converted.topics) == (1, MemberState.STABLE, {"a"})
        assert converted.assigned == rig.of(a=owned)
        assert converted.classic == ClassicMemberMetadata(10_000, (("range", subscription(["a"], {})),))
    assert await log_tells(rig)
    for _ in range(2):
        for member in pair:
            if answer_of(member.heartbeat()) is REJOIN:
                member.rejoins()
        newcomer.beat()
    assert rig.consumers.state_name == "Stable"
    assert sum(map(len, newcomer.owned.values())) == 1
    assert rig.committed() == {("a", 0): 7}
    await rig.pass_ms(10_001)
    assert rig.consumers.members.keys() == {"m1"}, "the sessions of classic members go on"


async def test_members_go_over_and_back_in_the_order_in_which_they_came() -> None:
    rig = await ConsumerRig.having({"a": 6})
    for number in (2, 0, 1):
        ClassicConsumer(rig, f"i{number}", "a", version=3).join()
    newcomer = ConsumerClient(rig, "kkk", "a")
    newcomer.beat()
    went_over = [member for member in rig.members_written() if member != "kkk"]
    assert [one[:2] for one in went_over] == ["i2", "i0", "i1"]
    newcomer.leave()
    written = rig.records()[-1]
    assert written is not None
    assert [member.member_id for member in written.members] == went_over
    assert written.leader == went_over[0]


@pytest.mark.parametrize("topics", [("a",), ("a", "b")])
async def test_no_assignor_serves_who_has_a_partition_that_does_not_exist(topics: tuple[str, ...]) -> None:
    """As in Kafka 4.1: the topic was made again with fewer partitions, or the group's leader made one up."""
    rig = await ConsumerRig.having({"a": 4, "b": 1})
    await classic_pair(rig)
    rig.drop("a")
    rig.create("a", 3)
    with capture_logs() as lines:
        assert refused(ConsumerClient(rig, "m1", *topics).send(member_epoch=0)) is ErrorCode.unknown_server_error
    assert [line["event"] for line in lines if line["log_level"] == "error"] == ["target assignment failed"]
    assert rig.shard.groups.classic.by_id.get("readers") is not None


async def test_who_wants_nothing_takes_nothing_from_others_after_the_group_went_over() -> None:
    rig = await ConsumerRig.having({"a": 4, "b": 1})
    old = ClassicConsumer(rig, "c1", "b", version=3)
    old.join()
    await rig.pass_ms(5)
    modern = ConsumerClient(rig, "m1", "a")
    modern.beat()
    answer_of(old.leave())
    ConsumerClient(rig, "m2").beat()
    assert modern.beat().assigned == rig.of(a=range(4))


async def test_a_static_member_takes_its_place_and_the_group_over_to_the_consumer_protocol() -> None:
    rig = await ConsumerRig.having({"a": 4})
    leader = ClassicConsumer(rig, "c1", "a", instance="i1")
    leader.join()
    await rig.pass_ms(5)
    answer_of(leader.sync({leader.member_id: assignment(some(0, 1, 2, 3))}))
    back = ConsumerClient(rig, "m1", "a", instance="i1")
    assert back.beat().assigned == rig.of(a=range(4))
    assert rig.consumers.members.keys() == {"m1"}
    assert refused(leader.heartbeat()) is ErrorCode.fenced_instance_id
    assert await log_tells(rig)
    await rig.pass_ms(10_001)
    assert (rig.consumers.members.keys(), rig.counts.expired_members) == ({"m1"}, 0)


async def test_who_waits_for_a_rebalance_of_the_classic_group_is_told_to_join_the_new_one() -> None:
    rig = await ConsumerRig.having({"a": 4})
    _, follower = await classic_pair(rig)
    third = ClassicConsumer(rig, "c3", "a", version=3)
    parked = third.join()
    assert waits(parked)
    ConsumerClient(rig, "m1", "a").beat()
    answer = answer_of(parked)
    assert answer == JoinAnswer(answer.member_id, REJOIN)
    third.member_id = answer.member_id
    assert rig.member(third).assigned == {}
    assert rig.member(follower).assigned == rig.of(a=(2, 3))
    third.rejoins()
    assert (third.generation, rig.phase_timers) == (rig.consumers.epoch, 0)
    assert await log_tells(rig)


async def test_who_waits_for_its_assignment_is_told_to_join_again() -> None:
    rig = await ConsumerRig.having({"a": 4})
    leader, follower = await classic_pair(rig)
    joins = [leader.join(), follower.join()]
    await rig.pass_ms(5)
    assert [answer_of(join).generation for join in joins] == [2, 2]
    parked = follower.sync()
    ConsumerClient(rig, "m1", "a").beat()
    assert refused(parked) is REJOIN
    assert rig.member(follower).epoch == 2
    assert rig.epochs == (3, 3)
    assert (rig.phase_timers, rig.session_timers) == (0, 0)
    assert await log_tells(rig)
    await rig.pass_ms(10_001)
    assert rig.consumers.members.keys() == {"m1"}, "who does not join again is not waited for"


async def test_who_waits_for_its_assignment_gets_it_also_if_the_newcomer_wants_no_topic_that_exists() -> None:
    rig = await ConsumerRig.having({"a": 4})
    old = ClassicConsumer(rig, "c1", "a", version=3)
    joined = old.join()
    await rig.pass_ms(5)
    assert answer_of(joined).error is NONE
    ConsumerClient(rig, "m1", regex="b").beat()
    assert old.rejoins() == {"a": {0, 1, 2, 3}}


@pytest.mark.parametrize(
    ("why", "config", "client", "user_data"),
    [
        ("online upgrade is disabled.", {"may_upgrade": False}, {}, b""),
        ("the group size exceeds the consumer group maximum size.", {"max_size": 1}, {}, b""),
        (
            "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default "
            "assignor before re-attempting the upgrade.",
            {},
            {},
            b"mine",
        ),
        ("the embedded consumer protocol is malformed.", {}, {"subscription_version": 0x8000}, b""),
    ],
)
async def test_group_consumer_migration_policy_keeps_a_classic_group_as_it_is(
    why: str, config: dict[str, Any], client: dict[str, Any], user_data: bytes
) -> None:
    rig = await ConsumerRig.having({"a": 4}, **config)
    pair = await classic_pair(rig, user_data, **client)
    written = rig.log.log_end_offset
    with pytest.raises(GroupIdNotFound) as caught:
        ConsumerClient(rig, "m1", "a").beat()
    assert str(caught.value) == f"Cannot upgrade classic group readers to consumer group because {why}"
    assert rig.log.log_end_offset == written
    assert rig.group.state is STABLE
    assert [answer_of(member.heartbeat()) for member in pair] == [NONE, NONE]


@pytest.mark.parametrize(
    ("owned", "share"),
    [(b"\x40\0\0\0", b""), (b"\xff\xff\xff\xff", b""), (b"\0\0\0\0", b"\0\1\x40\0\0\0")],
    ids=["more owned topics than bytes", "owned topics are null", "more assigned topics than bytes"],
)
async def test_a_group_with_an_impossible_length_stays_as_it_is(owned: bytes, share: bytes) -> None:
    rig = await ConsumerRig.having({"a": 4})
    leader = ClassicConsumer(rig, "c1", "a", version=3)
    leader.metadata["range"] = b"\0\1" + subscription(["a"], {}, version=0)[2:] + owned
    leader.join()
    await rig.pass_ms(5)
    answer_of(leader.sync({leader.member_id: share}))
    assert refused(ConsumerClient(rig, "m1", "a").send()) is ErrorCode.group_id_not_found
    assert rig.group.state is STABLE
    assert answer_of(leader.heartbeat()) is NONE


async def test_who_waits_is_sent_back_also_by_an_upgrade_that_the_log_refuses() -> None:
    rig = await ConsumerRig.having({"a": 4})
    leader, follower = await classic_pair(rig)
    parked = leader.join()
    assert (rig.group.state, waits(parked)) == (PREPARING, True)
    rig.log.fail_with = MessageTooLarge()
    assert refused(ConsumerClient(rig, "m1", "a").send()) is ErrorCode.unknown_server_error
    assert (rig.group.state, refused(parked), rig.timers) == (PREPARING, REJOIN, [])
    rig.log.fail_with = None
    again = leader.join()
    assert waits(again)
    follower.join()
    assert answer_of(again).generation == 2


# -- empty groups


async def test_an_empty_group_is_what_the_next_member_makes_it_and_keeps_its_offsets() -> None:
    rig = await ConsumerRig.having({"a": 4})
    rig.commit(offset(0, 7, "a"))
    assert rig.group_types() == {"readers": "classic"}
    member = ConsumerClient(rig, "m1", "a")
    assert member.beat().member_epoch == 2
    assert rig.group_types() == {"readers": "consumer"}
    member.leave()
    pair = await classic_pair(rig)
    assert (rig.group.generation, rig.group_types()) == (1, {"readers": "classic"})
    assert rig.counts.groups[STABLE] == 1
    for one in pair:
        one.leave()
    assert rig.group.state is EMPTY
    assert await log_tells(rig)
    assert member.beat().member_epoch == 2
    assert rig.group_types() == {"readers": "consumer"}
    assert not +rig.counts.groups
    assert rig.committed() == {("a", 0): 7}
    assert await log_tells(rig)
    member.leave()
    stranger = ClassicConsumer(rig, "c1", "a")
    stranger.member_id = "unknown"
    assert refused(stranger.join()) is ErrorCode.unknown_member_id
    assert rig.group_types() == {"readers": "consumer"}


async def test_a_group_that_is_no_group_of_consumers_stays_classic() -> None:
    rig = await ConsumerRig.having({"a": 4})
    protocols = (MemberProtocol("default", b""),)
    rig.join_request(
        JoinRequest("readers", "", None, "w1", "/", 10_000, 10_000, "connect", protocols, member_id_required=False)
    )
    await rig.pass_ms(5)
    with pytest.raises(GroupIdNotFound, match="does not use the consumer embedded protocol"):
        ConsumerClient(rig, "m1", "a").beat()
