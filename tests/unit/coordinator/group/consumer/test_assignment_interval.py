"""Targets are made at most once in `group.consumer.assignment.interval.ms` (KIP-1263)."""

from __future__ import annotations

import pytest

from coordinator.group.modern.group import MemberState
from protocol.errors import StaleMemberEpoch
from tests.unit.coordinator.group.consumer.clients import ConsumerClient
from tests.unit.coordinator.group.consumer.rig import ConsumerRig, log_tells

INTERVAL_MS = 1000


async def two_members() -> tuple[ConsumerRig, ConsumerClient, ConsumerClient]:
    rig = await ConsumerRig.having({"a": 4}, assignment_interval=lambda: INTERVAL_MS)
    first, second = (ConsumerClient(rig, name, "a") for name in ("m1", "m2"))
    first.beat()
    return rig, first, second


async def test_the_first_target_is_made_at_once_and_the_next_after_the_interval() -> None:
    rig, first, second = await two_members()
    assert (first.epoch, first.owned, rig.consumers.state_name) == (2, rig.of(a=(0, 1, 2, 3)), "Stable")
    joined = second.beat()
    assert (joined.member_epoch, joined.assigned) == (2, {}), "nothing, at the epoch of the present target"
    assert (rig.epochs, rig.consumers.state_name) == ((3, 2), "Assigning")
    await rig.pass_ms(INTERVAL_MS - 1)
    assert (first.beat().member_epoch, rig.epochs) == (2, (3, 2))
    assert await log_tells(rig)
    await rig.pass_ms(1)
    assert (first.beat(gives_up=False).member_epoch, rig.epochs) == (2, (3, 3))
    assert rig.member(first).state is MemberState.UNREVOKED
    first.beat()
    first.beat()
    second.beat()
    assert (second.epoch, sum(map(len, second.owned.values()))) == (3, 2)


async def test_a_waiting_newcomer_may_commit_with_the_epoch_that_it_has() -> None:
    rig, _, second = await two_members()
    second.beat()
    rig.consumers.validate_offset_commit("m2", None, 2, transactional=False, knows_member_epochs=True)
    with pytest.raises(StaleMemberEpoch):
        rig.consumers.validate_offset_commit("m2", None, 3, transactional=False, knows_member_epochs=True)


async def test_who_leaves_raises_the_group_epoch_alone_but_for_the_last() -> None:
    rig, first, second = await two_members()
    await rig.pass_ms(INTERVAL_MS)
    second.beat()
    second.leave()
    assert rig.epochs == (4, 3)
    first.leave()
    assert (rig.epochs, rig.consumers.assigned_ms) == ((5, 5), 0)
    again = first.beat()
    assert (again.member_epoch, again.assigned) == (6, rig.of(a=(0, 1, 2, 3))), "at once, since the group was empty"


async def test_the_interval_of_now_counts_and_a_groups_own_before_it() -> None:
    interval_ms = [INTERVAL_MS]
    overrides: dict[str, dict[str, int]] = {}
    rig = await ConsumerRig.having({"a": 4}, assignment_interval=lambda: interval_ms[0], overrides=overrides)
    first, second, third = (ConsumerClient(rig, name, "a") for name in ("m1", "m2", "m3"))
    first.beat()
    interval_ms[0] = 0
    assert second.beat().member_epoch == 3
    overrides[rig.consumers.group_id] = {"assignment.interval.ms": 500}
    assert third.beat().member_epoch == 3
    await rig.pass_ms(500)
    third.beat()
    assert rig.epochs == (4, 4)
