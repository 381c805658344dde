"""Partitions move in two steps: their owner gives them up, and only then the next one gets them."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from coordinator.group.consumer.group import ConsumerMember
from coordinator.group.kinds import OwnedPartition
from coordinator.group.modern.group import MemberState
from coordinator.runtime.outcome import Outcome
from protocol.errors import StaleMemberEpoch
from tests.unit.coordinator.group.consumer.clients import ConsumerClient
from tests.unit.coordinator.group.consumer.rig import ConsumerRig, log_tells
from tests.unit.coordinator.group.steps import refused

STABLE, UNREVOKED, UNRELEASED, UNKNOWN = MemberState


async def two_members(rig: ConsumerRig) -> tuple[ConsumerClient, ConsumerClient]:
    """The first has everything, the second has just joined."""
    first, second = ConsumerClient(rig, "m1", "a"), ConsumerClient(rig, "m2", "a")
    first.beat()
    second.beat()
    return first, second


async def test_the_first_member_gets_everything_at_once() -> None:
    rig = await ConsumerRig.having({"a": 4})
    member = ConsumerClient(rig, "m1", "a")
    answer = member.beat()
    assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == ("m1", 2, 5_000)
    assert answer.assigned == rig.of(a=range(4))
    assert rig.epochs == (2, 2)
    assert rig.consumers.state_name == "Stable"
    assert await log_tells(rig)


async def test_the_second_member_waits_until_the_first_has_given_up_its_half() -> None:
    rig = await ConsumerRig.having({"a": 4})
    first, second = await two_members(rig)
    assert (second.epoch, second.owned, rig.member(second).state) == (3, {}, UNRELEASED)
    assert rig.consumers.state_name == "Reconciling"
    first.beat(gives_up=False)
    assert (first.epoch, rig.member(first).state) == (2, UNREVOKED)
    assert rig.member(first).pending_revocation == rig.of(a=(2, 3))
    assert first.beat(gives_up=False).member_epoch == 2
    assert second.beat_briefly().assigned is None
    first.owned = rig.of(a=(0, 1, 2))
    assert first.beat().member_epoch == 2
    assert second.beat().assigned == {}
    answer = first.beat()
    assert (answer.member_epoch, answer.assigned, rig.member(first).state) == (3, rig.of(a=(0, 1)), STABLE)
    assert second.beat_briefly().assigned == rig.of(a=(2, 3))
    assert rig.consumers.state_name == "Stable"
    assert rig.epochs == (3, 3)
    assert await log_tells(rig)


async def test_who_tells_nothing_of_what_it_owns_is_told_its_assignment_only_when_that_changes() -> None:
    rig = await ConsumerRig.having({"a": 4})
    first, _ = await two_members(rig)
    assert first.beat_briefly().assigned == rig.of(a=(0, 1))
    assert first.beat_briefly().assigned is None
    assert rig.member(first).state is UNREVOKED, "it may own them still"
    assert first.beat(topics=None, rebalance_timeout_ms=-1).assigned is None
    assert (first.epoch, rig.member(first).state) == (3, STABLE)
    assert first.beat().assigned == rig.of(a=(0, 1)), "a full request"


async def test_who_is_late_by_two_targets_goes_through_each() -> None:
    rig = await ConsumerRig.having({"a": 6})
    first, second = await two_members(rig)
    first.beat()
    third = ConsumerClient(rig, "m3", "a")
    third.beat()
    assert rig.member(first).pending_revocation == rig.of(a=(3, 4, 5))
    first.owned = rig.of(a=(0, 1, 2))
    first.beat(gives_up=False)
    assert (first.epoch, rig.member(first).state) == (2, UNREVOKED), "of the present target"
    assert rig.member(first).pending_revocation == rig.of(a=(2,))
    second.beat()
    assert second.owned == rig.of(a=(3, 4))
    first.owned = rig.of(a=(0, 1))
    for member in (first, second, third):
        member.beat()
    assert [member.owned for member in (first, second, third)] == [rig.of(a=some) for some in ((0, 1), (3, 4), (2, 5))]
    assert rig.consumers.state_name == "Stable"
    assert await log_tells(rig)


async def test_fenced_member_epoch_except_for_the_previous_epoch_after_a_lost_answer() -> None:
    rig = await ConsumerRig.having({"a": 4})
    first, second = await two_members(rig)
    first.beat()
    first.send()
    assert rig.member(first).epoch == 3
    assert refused(first.send(owned=rig.of(a=(0, 1, 2)))) is ErrorCode.fenced_member_epoch
    assert refused(first.send(owned=None)) is ErrorCode.fenced_member_epoch
    assert refused(first.send(member_epoch=4)) is ErrorCode.fenced_member_epoch
    assert first.send(owned=rig.member(first).assigned).result().member_epoch == 3
    assert first.beat(owned=rig.of(a=(1,))).member_epoch == 3
    joins_again = ConsumerClient(rig, "m2", "a")
    assert joins_again.beat().member_epoch == 3, "its first answer may have been lost"
    third = ConsumerClient(rig, "m3", "a")
    third.beat()
    assert second.beat().member_epoch == 4
    assert joins_again.send(member_epoch=0).result().member_epoch == 4, "as a new one, whatever its epoch is"
    assert refused(joins_again.send(member_epoch=2)) is ErrorCode.fenced_member_epoch
    assert refused(ConsumerClient(rig, "m4", "a").send(member_epoch=4)) is ErrorCode.unknown_member_id


@pytest.mark.parametrize("owned", [(0, 1), None, ()], ids=["some", "not said", "none"])
async def test_a_member_in_a_state_of_some_later_kafkas_goes_on_only_if_it_owns_nothing(
    owned: tuple[int, ...] | None,
) -> None:
    rig = await ConsumerRig.having({"a": 2})
    member = ConsumerClient(rig, "m1", "a")
    member.beat()
    strange = ConsumerMember("m1", epoch=2, state=UNKNOWN, assigned=rig.of(a=(0, 1)))
    rig.runtime.write(0, lambda _: Outcome((rig.consumers.assignment_record(strange),)))
    answer = member.send(owned=None if owned is None else rig.of(a=owned))
    if owned == ():
        assert (answer.result().member_epoch, rig.member(member).state) == (2, STABLE)
    else:
        assert refused(answer) is ErrorCode.fenced_member_epoch


async def test_the_group_uses_the_assignor_that_most_of_its_members_prefer() -> None:
    rig = await ConsumerRig.having({"a": 2, "b": 2})
    members = [ConsumerClient(rig, f"m{number}", "a", "b", assignor="range") for number in (1, 2)]
    members.append(ConsumerClient(rig, "m3", "a", "b", assignor="uniform"))
    for member in members * 3:
        member.beat()
    assert [member.owned for member in members] == [rig.of(a=(0,), b=(0,)), rig.of(a=(1,), b=(1,)), {}]


async def test_group_max_size_reached_for_one_more_consumer() -> None:
    rig = await ConsumerRig.having({"a": 4}, max_size=2)
    first, second = await two_members(rig)
    assert refused(ConsumerClient(rig, "m3", "a").send()) is ErrorCode.group_max_size_reached
    assert first.beat().member_epoch == 2
    second.leave()
    assert ConsumerClient(rig, "m3", "a").beat().member_epoch == 5


async def test_a_static_consumer_comes_back_to_a_full_group() -> None:
    rig = await ConsumerRig.having({"a": 4}, max_size=1)
    first = ConsumerClient(rig, "m1", "a", instance="i")
    first.beat()
    first.leave(for_a_while=True)
    assert ConsumerClient(rig, "m2", "a", instance="i").beat().assigned == rig.of(a=(0, 1, 2, 3))


async def test_who_leaves_is_gone_and_its_partitions_are_free() -> None:
    rig = await ConsumerRig.having({"a": 4})
    first, second = await two_members(rig)
    answer = first.leave()
    assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == ("m1", -1, 0)
    assert rig.consumers.state_name == "Assigning"
    assert second.beat().assigned == rig.of(a=range(4))
    assert refused(first.send(member_epoch=2)) is ErrorCode.unknown_member_id
    assert second.leave().member_epoch == -1
    assert (rig.epochs, rig.consumers.state_name) == ((5, 5), "Empty")
    assert rig.timers == []
    assert await log_tells(rig)
    assert first.beat().member_epoch == 6


async def test_a_late_commit_is_good_for_what_the_member_has_had_since_its_epoch() -> None:
    """As Kafka 4.4 answered it (KIP-1251)."""
    rig = await ConsumerRig.having({"a": 4})
    first, second = await two_members(rig)
    (topic,) = rig.of(a=(0,))

    def may_commit(member: str, epoch: int, *indexes: int) -> bool:
        partitions = [OwnedPartition("a", topic, index) for index in indexes]
        try:
            rig.consumers.validate_offset_commit(
                member, None, epoch, transactional=False, knows_member_epochs=True, partitions=partitions
            )
        except StaleMemberEpoch:
            return False
        return True

    first.beat(gives_up=False)
    assert may_commit("m1", 2, 0, 3), "one that it is to give up, too"
    first.owned = rig.of(a=(0, 1))
    first.beat()
    second.beat()
    assert (first.epoch, second.epoch) == (3, 3)
    assert may_commit("m1", 2, 0)
    assert not may_commit("m1", 2, 0, 3)
    assert not may_commit("m1", 1, 0)
    assert not may_commit("m1", 4, 0)
    assert not may_commit("m2", 2, 2), "it has it since epoch 3"
    assert may_commit("m2", 3, 2)
    assert may_commit("m1", 3, 3), "with the member's own epoch any"
