"""Whoever is silent for a session, or does not give up its partitions in time, is removed."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from coordinator.group.modern.group import MemberState
from tests.unit.coordinator.group.consumer.clients import ConsumerClient
from tests.unit.coordinator.group.consumer.rig import ConsumerRig, log_tells
from tests.unit.coordinator.group.offsets.rig import offset
from tests.unit.coordinator.group.rig import GROUP
from tests.unit.coordinator.group.steps import refused

STABLE, UNREVOKED, UNRELEASED, UNKNOWN = MemberState
SESSION = 45_000


async def in_state(rig: ConsumerRig, state: MemberState | None) -> tuple[ConsumerClient, ConsumerClient]:
    """A member in this state, None being away; and another one that must get what it has."""
    first, second = ConsumerClient(rig, "m1", "a", instance="i1"), ConsumerClient(rig, "m2", "a")
    first.beat()
    if state is STABLE:
        return first, second
    second.beat()
    first.beat(gives_up=False)
    if state is UNRELEASED:
        return second, first
    if state is None:
        first.leave(for_a_while=True)
    return first, second


@pytest.mark.parametrize("state", [STABLE, UNREVOKED, UNRELEASED, None])
async def test_session_timeout_removes_a_silent_member_in_whatever_state_it_is(state: MemberState | None) -> None:
    rig = await ConsumerRig.having({"a": 4})
    silent, other = await in_state(rig, state)
    epoch = rig.consumers.epoch
    for ms in (22_000, SESSION - 22_000 - 1):
        await rig.pass_ms(ms)
        other.beat(gives_up=False)
    assert silent.member_id in rig.consumers.members
    assert rig.consumers.epoch == epoch + (state is STABLE)
    await rig.pass_ms(2)
    assert [*rig.consumers.members] == [other.member_id]
    assert rig.consumers.epoch == epoch + (state is STABLE) + 1
    assert rig.counts.expired_members == 1
    for _ in range(2):
        other.beat()
    assert other.beat().assigned == rig.of(a=range(4))
    assert refused(silent.send(member_epoch=2, owned={})) in (ErrorCode.unknown_member_id, ErrorCode.fenced_instance_id)
    assert rig.consumers.state_name == "Stable"
    assert rig.timers == [f"session of {other.member_id}"]
    assert await log_tells(rig)


async def test_heartbeats_alone_are_signs_of_life() -> None:
    rig = await ConsumerRig.having({"a": 4})
    member = ConsumerClient(rig, "m1", "a")
    member.beat()
    for _ in range(3):
        await rig.pass_ms(SESSION - 1)
        member.beat_briefly()
    await rig.pass_ms(SESSION - 10)
    assert rig.commit(offset(0, 1, "a"), member_id="m1", generation=2) == [ErrorCode.none]
    await rig.pass_ms(11)
    assert rig.consumers.is_empty
    assert rig.committed() == {("a", 0): 1}


async def test_rebalance_timeout_removes_a_member_that_does_not_give_up_its_partitions() -> None:
    rig = await ConsumerRig.having({"a": 4})
    slow, second = ConsumerClient(rig, "m1", "a", rebalance_ms=20_000), ConsumerClient(rig, "m2", "a")
    slow.beat()
    second.beat()
    slow.beat(gives_up=False)
    for _ in range(4):
        await rig.pass_ms(4_999)
        assert slow.beat(gives_up=False).member_epoch == 2
    await rig.pass_ms(5)
    assert [*rig.consumers.members] == ["m2"]
    assert refused(slow.send()) is ErrorCode.unknown_member_id
    assert second.beat().assigned == rig.of(a=range(4))


async def test_the_rebalance_timeout_counts_anew_for_each_target_and_ends_with_the_last_partition_given_up() -> None:
    rig = await ConsumerRig.having({"a": 6})
    slow = ConsumerClient(rig, "m1", "a", rebalance_ms=20_000)
    second, third = ConsumerClient(rig, "m2", "a"), ConsumerClient(rig, "m3", "a")
    slow.beat()
    second.beat()
    slow.beat()
    assert rig.timers == ["rebalance of m1", "session of m1", "session of m2"]
    await rig.pass_ms(19_000)
    third.beat()
    slow.beat(gives_up=False)
    assert (slow.epoch, rig.member(slow).state) == (2, UNREVOKED)
    await rig.pass_ms(19_000)
    slow.owned = rig.of(a=(0, 1))
    assert slow.beat().member_epoch == 4
    assert rig.timers == ["session of m1", "session of m2", "session of m3"]
    await rig.pass_ms(20_001)
    assert {"m1", "m3"} <= rig.consumers.members.keys()
    assert await log_tells(rig)


async def test_a_group_may_have_its_own_session_timeout_and_heartbeat_interval() -> None:
    own = {GROUP: {"session.timeout.ms": 50_000, "heartbeat.interval.ms": 7_000}}
    rig = await ConsumerRig.having({"a": 4}, overrides=own)
    member = ConsumerClient(rig, "m1", "a")
    assert member.beat().heartbeat_interval_ms == 7_000
    await rig.pass_ms(49_999)
    own.clear()
    assert member.beat().heartbeat_interval_ms == 5_000
    await rig.pass_ms(SESSION - 1)
    own[GROUP] = {"session.timeout.ms": 10_000}
    member.beat()
    await rig.pass_ms(1_000)
    member.beat()
    await rig.pass_ms(9_999)
    assert not rig.consumers.is_empty
    await rig.pass_ms(2)
    assert rig.consumers.is_empty
    own.clear()
    member.forget()
    member.beat()
    own[GROUP] = {"session.timeout.ms": 10_000}
    member.beat()
    await rig.pass_ms(10_001)
    assert rig.consumers.is_empty, "a shorter one holds from the next heartbeat on"
