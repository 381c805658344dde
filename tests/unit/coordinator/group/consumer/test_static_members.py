"""Static members of a consumer group: away for a while, and back in their place."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from coordinator.group.modern.group import MemberState
from tests.unit.coordinator.group.consumer.clients import ConsumerClient
from tests.unit.coordinator.group.consumer.rig import ConsumerRig, log_tells
from tests.unit.coordinator.group.steps import refused


async def pair(rig: ConsumerRig) -> tuple[ConsumerClient, ConsumerClient]:
    """A static member and a dynamic one, each with its half."""
    static, other = ConsumerClient(rig, "m1", "a", instance="i1"), ConsumerClient(rig, "m2", "a")
    for member in (static, other, static, static, other):
        member.beat()
    assert rig.consumers.state_name == "Stable"
    return static, other


async def test_back_under_another_member_id_it_has_its_partitions_at_the_same_group_epoch() -> None:
    rig = await ConsumerRig.having({"a": 4})
    static, other = await pair(rig)
    answer = static.leave(for_a_while=True)
    assert (answer.member_id, answer.member_epoch) == ("m1", -2)
    assert (rig.member(static).epoch, rig.member(static).assigned) == (-2, rig.of(a=(0, 1)))
    assert other.beat().assigned == rig.of(a=(2, 3))
    back = ConsumerClient(rig, "m3", "a", instance="i1")
    assert back.beat().assigned == rig.of(a=(0, 1))
    assert (back.epoch, rig.epochs, rig.consumers.state_name) == (3, (3, 3), "Stable")
    assert [*rig.consumers.members] == ["m2", "m3"]
    assert rig.consumers.target == {"m2": rig.of(a=(2, 3)), "m3": rig.of(a=(0, 1))}
    for refusal in (static.send(member_epoch=3), static.send(member_epoch=-1), static.send(member_epoch=-2)):
        assert refused(refusal) is ErrorCode.fenced_instance_id
    assert await log_tells(rig)
    await rig.pass_ms(44_000)
    assert back.beat().member_epoch == 3, "the timer of the one before finds nobody"


async def test_back_with_other_topics_it_causes_a_rebalance() -> None:
    rig = await ConsumerRig.having({"a": 4, "b": 1})
    static, _ = await pair(rig)
    static.leave(for_a_while=True)
    back = ConsumerClient(rig, "m3", "a", "b", instance="i1")
    assert back.beat().member_epoch == 4
    assert back.owned.items() >= rig.of(b=(0,)).items()
    assert await log_tells(rig)


@pytest.mark.parametrize("same", [True, False], ids=["same id", "another id"])
async def test_away_while_it_should_give_partitions_up_it_has_given_them_up(same: bool) -> None:
    rig = await ConsumerRig.having({"a": 4})
    static, other = ConsumerClient(rig, "m1", "a", instance="i1"), ConsumerClient(rig, "m2", "a")
    static.beat()
    other.beat()
    static.beat(gives_up=False)
    assert rig.member(static).state is MemberState.UNREVOKED
    static.leave(for_a_while=True)
    assert other.beat().assigned == rig.of(a=(2, 3))
    back = ConsumerClient(rig, "m1" if same else "m3", "a", instance="i1")
    assert back.beat().assigned == rig.of(a=(0, 1))
    assert rig.consumers.state_name == "Stable"
    await rig.pass_ms(40_000)
    back.beat()
    other.beat()
    await rig.pass_ms(40_000)
    assert rig.consumers.members.keys() == {"m2", back.member_id}, "not removed for what the one before owed"
    assert await log_tells(rig)


async def test_back_after_a_topic_grew_it_keeps_what_it_had() -> None:
    rig = await ConsumerRig.having({"a": 2})
    static, other = await pair(rig)
    assert (static.owned, other.owned) == (rig.of(a=(0,)), rig.of(a=(1,)))
    static.leave(for_a_while=True)
    rig.grow("a", 6)
    back = ConsumerClient(rig, "m3", "a", instance="i1")
    back.beat()
    other.beat()
    assert back.owned.items() == rig.of(a=(0, 4, 5)).items()
    assert other.owned == rig.of(a=(1, 2, 3))


async def test_its_place_is_free_for_nobody_until_it_has_left() -> None:
    rig = await ConsumerRig.having({"a": 4})
    static, _ = await pair(rig)
    again = ConsumerClient(rig, "m3", "a", instance="i1")
    assert refused(again.send()) is ErrorCode.unreleased_instance_id
    assert refused(again.send(member_epoch=3)) is ErrorCode.fenced_instance_id
    assert refused(again.send(member_epoch=-1)) is ErrorCode.fenced_instance_id
    assert refused(again.send(member_epoch=3, instance_id="i9")) is ErrorCode.unknown_member_id
    assert refused(again.send(member_epoch=-2, instance_id="i9")) is ErrorCode.unknown_member_id
    assert static.beat().member_epoch == 3
    static.leave()
    assert again.beat().member_epoch == 5
    assert rig.consumers.static_ids == {"i1": "m3"}


async def test_while_one_is_away_and_the_group_goes_on_it_comes_back_to_the_newest_target() -> None:
    rig = await ConsumerRig.having({"a": 6})
    static, other = await pair(rig)
    third = ConsumerClient(rig, "m3", "a")
    static.leave(for_a_while=True)
    third.beat()
    other.beat()
    other.beat()
    back = ConsumerClient(rig, "m4", "a", instance="i1")
    assert back.beat().member_epoch == 4
    assert back.owned == rig.consumers.target["m4"]
    assert third.beat().assigned == rig.consumers.target["m3"]
    assert rig.consumers.state_name == "Stable"
    assert await log_tells(rig)
