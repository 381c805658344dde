"""A member that sends no heartbeats, in each state of its group."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from tests.unit.coordinator.group.rig import COMPLETING, EMPTY, PREPARING, STABLE, Client, Rig
from tests.unit.coordinator.group.steps import answer_of, assign_all, completing, refused, stable, waits


async def test_session_timeout_in_a_stable_group_causes_a_rebalance() -> None:
    rig = await Rig.started()
    leader, second = Client(rig, "c1"), Client(rig, "c2")
    await stable(rig, leader, second)
    await rig.pass_ms(9_000)
    assert answer_of(leader.heartbeat()) is ErrorCode.none
    await rig.pass_ms(900)
    assert rig.states == []
    await rig.pass_ms(200)
    assert rig.states == [PREPARING]
    assert list(rig.group.members) == [leader.member_id]
    assert answer_of(leader.heartbeat()) is ErrorCode.rebalance_in_progress
    assert refused(second.heartbeat()) is ErrorCode.unknown_member_id
    assert answer_of(leader.join()).generation == 2
    assert rig.counts.expired_members == 1


async def test_of_the_last_member_of_a_stable_group_leaves_it_empty() -> None:
    rig = await Rig.started()
    member = Client(rig, "c1")
    await stable(rig, member)
    await rig.pass_ms(10_100)
    assert rig.states == [PREPARING, EMPTY]
    record = rig.records()[-1]
    assert record is not None
    assert record.members == ()


async def test_while_assignments_are_awaited_sends_the_others_back() -> None:
    rig = await Rig.started()
    leader, second, third = (Client(rig, f"c{i}") for i in range(3))
    await completing(rig, leader, second, third)
    parked = second.sync()
    await rig.pass_ms(9_000)
    assert answer_of(leader.heartbeat()) is ErrorCode.none
    await rig.pass_ms(1_100)
    assert refused(parked) is ErrorCode.rebalance_in_progress
    assert list(rig.group.members) == [leader.member_id, second.member_id]


async def test_does_not_befall_a_member_that_awaits_its_assignment() -> None:
    rig = await Rig.started()
    leader, second = Client(rig, "c1"), Client(rig, "c2")
    await completing(rig, leader, second)
    parked = second.sync()
    for _ in range(5):
        await rig.pass_ms(9_000)
        assert answer_of(leader.heartbeat()) is ErrorCode.none
    assert waits(parked)
    leader.sync(assign_all((leader, second)))
    assert answer_of(parked).error is ErrorCode.none
    await rig.pass_ms(9_000)
    assert rig.group.state is STABLE


async def test_while_a_rebalance_is_prepared_ends_the_join_phase() -> None:
    rig = await Rig.started()
    leader, second = Client(rig, "c1"), Client(rig, "c2")
    await stable(rig, leader, second)
    join = leader.join()
    await rig.pass_ms(9_900)
    assert waits(join)
    await rig.pass_ms(300)
    assert answer_of(join).generation == 2
    assert list(rig.group.members) == [leader.member_id]


async def test_does_not_befall_a_member_that_waits_for_the_join_phase() -> None:
    rig = await Rig.started()
    leader, second = Client(rig, "c1"), Client(rig, "c2")
    await stable(rig, leader, second)
    join = leader.join()
    for _ in range(6):
        await rig.pass_ms(9_000)
        assert answer_of(second.heartbeat()) is ErrorCode.rebalance_in_progress
    assert waits(join)
    assert answer_of(second.join()).generation == answer_of(join).generation == 2


async def test_who_keeps_its_session_but_does_not_rejoin_is_removed_after_the_rebalance_timeout() -> None:
    rig = await Rig.started()
    leader, second = Client(rig, "c1"), Client(rig, "c2")
    await stable(rig, leader, second)
    joins = [Client(rig, "c3").join(), second.join()]
    for _ in range(6):
        await rig.pass_ms(9_000)
        answer_of(leader.heartbeat())
    await rig.pass_ms(6_100)
    assert {(answer_of(join).generation, answer_of(join).leader) for join in joins} == {(2, second.member_id)}
    assert refused(leader.heartbeat()) is ErrorCode.unknown_member_id
    assert rig.states == [PREPARING, COMPLETING]


async def test_of_everybody_while_a_rebalance_is_prepared_leaves_the_group_empty() -> None:
    rig = await Rig.started()
    leader, second = Client(rig, "c1"), Client(rig, "c2")
    await stable(rig, leader, second)
    answer_of(second.leave())
    assert rig.states == [PREPARING]
    await rig.pass_ms(10_100)
    assert rig.states == [PREPARING, EMPTY]


async def test_the_rebalance_timeout_is_the_longest_of_the_members() -> None:
    rig = await Rig.started()
    leader = Client(rig, "c1", rebalance_ms=20_000, session_ms=100_000)
    second = Client(rig, "c2", rebalance_ms=40_000, session_ms=100_000)
    third = Client(rig, "c3", rebalance_ms=30_000, session_ms=100_000)
    await stable(rig, leader, second, third)
    join = leader.join()
    third.join()
    await rig.pass_ms(39_900)
    assert waits(join)
    await rig.pass_ms(200)
    assert answer_of(join).generation == 2
    assert set(rig.group.members) == {leader.member_id, third.member_id}


async def test_a_new_members_join_waits_five_minutes_at_most() -> None:
    rig = await Rig.started()
    leader, newcomer = (Client(rig, f"c{i}", rebalance_ms=600_000) for i in range(2))
    await stable(rig, leader)
    join = newcomer.join()
    for _ in range(33):
        await rig.pass_ms(9_000)
        answer_of(leader.heartbeat())
    assert waits(join)
    await rig.pass_ms(4_000)
    assert refused(join) is ErrorCode.unknown_member_id
    assert answer_of(join).member_id == ""
    assert answer_of(leader.join()).generation == 2


async def test_a_member_id_that_is_not_used_holds_a_rebalance_for_its_session_timeout() -> None:
    rig = await Rig.started()
    leader, pending = Client(rig, "c1"), Client(rig, "c2", version=4, session_ms=12_000)
    await stable(rig, leader)
    answer_of(pending.join())
    join = leader.join()
    await rig.pass_ms(11_900)
    assert waits(join)
    await rig.pass_ms(200)
    assert answer_of(join).generation == 2
    assert refused(pending.join()) is ErrorCode.unknown_member_id


async def test_a_pending_members_end_cuts_the_initial_delay_short() -> None:
    rig = await Rig.started(initial_rebalance_delay_ms=30_000)
    member, pending = Client(rig, "c1"), Client(rig, "c2", version=4)
    join = member.join()
    answer_of(pending.join())
    await rig.pass_ms(9_900)
    assert waits(join)
    await rig.pass_ms(200)
    assert answer_of(join).generation == 1


async def test_a_sync_a_join_and_a_heartbeat_each_prove_life() -> None:
    rig = await Rig.started()
    leader, second = Client(rig, "c1"), Client(rig, "c2")
    await stable(rig, leader, second)
    await rig.pass_ms(9_000)
    answer_of(leader.heartbeat())
    rig.group.offset_commit_accepted(second.member_id)
    await rig.pass_ms(9_000)
    assert rig.states == []
    joins = [leader.join(), second.join()]
    assert {answer_of(join).generation for join in joins} == {2}
    await rig.pass_ms(9_900)
    assert rig.group.state is COMPLETING
    assert len(rig.group.members) == 2
