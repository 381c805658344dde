"""The coordinator restarts while a group is in each of its states: what the log says is what it finds."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from coordinator.runtime.outcome import Outcome
from protocol.errors import NotCoordinator
from protocol.records.build import Record, build_batch
from tests.unit.coordinator.group.rig import DEAD, EMPTY, GROUP, PREPARING, STABLE, Client, Rig
from tests.unit.coordinator.group.steps import answer_of, assign_all, completing, refused, stable, waits


async def test_in_stable_resumes_with_no_rebalance() -> None:
    rig = await Rig.started()
    leader, second = Client(rig, "c1"), Client(rig, "c2")
    await stable(rig, leader, second)
    await rig.restart()
    assert rig.group.state is STABLE
    assert rig.group.leader_id == leader.member_id
    for member in (leader, second):
        assert answer_of(member.heartbeat()) is ErrorCode.none
        assert answer_of(member.sync()).assignment == assign_all((member,))[member.member_id]
    assert answer_of(second.join()).generation == 1
    assert rig.states == []
    assert rig.group.subscribed_topics == {"topic"}


async def test_in_stable_starts_every_session_anew() -> None:
    rig = await Rig.started()
    leader, second = Client(rig, "c1"), Client(rig, "c2")
    await stable(rig, leader, second)
    await rig.pass_ms(9_000)
    await rig.restart()
    await rig.pass_ms(9_000)
    assert answer_of(leader.heartbeat()) is ErrorCode.none
    await rig.pass_ms(1_100)
    assert rig.states == [PREPARING]
    assert list(rig.group.members) == [leader.member_id]


async def test_in_empty_stays_empty_in_its_generation() -> None:
    rig = await Rig.started()
    member = Client(rig, "c1")
    await stable(rig, member)
    member.leave()
    await rig.restart()
    assert (rig.group.state, rig.group.generation, rig.group.protocol_type) == (EMPTY, 2, "consumer")
    assert refused(member.heartbeat()) is ErrorCode.unknown_member_id
    newcomer = Client(rig, "c2")
    join = newcomer.join()
    await rig.pass_ms(1)
    assert answer_of(join).generation == 3


async def test_of_a_new_group_forgets_who_was_joining() -> None:
    rig = await Rig.started(initial_rebalance_delay_ms=3_000)
    member = Client(rig, "c1")
    join = member.join()
    assert waits(join)
    await rig.restart()
    with pytest.raises(NotCoordinator):
        join.result()
    assert (rig.group.state, rig.group.generation) == (EMPTY, 0)
    join = member.join()
    await rig.pass_ms(3_001)
    assert answer_of(join).generation == 1


async def test_while_a_rebalance_is_prepared_goes_back_to_the_last_generation() -> None:
    rig = await Rig.started()
    leader, second = Client(rig, "c1"), Client(rig, "c2")
    await stable(rig, leader, second)
    newcomer = Client(rig, "c3")
    joins = [newcomer.join(), leader.join()]
    await rig.restart()
    for join in joins:
        with pytest.raises(NotCoordinator):
            join.result()
    assert (rig.group.state, rig.group.generation) == (STABLE, 1)
    assert answer_of(second.heartbeat()) is ErrorCode.none
    joins = [leader.join(), newcomer.join(), second.join()]
    assert {answer_of(join).generation for join in joins} == {2}


async def test_while_assignments_are_awaited_goes_back_to_the_last_generation() -> None:
    rig = await Rig.started()
    leader, second, third = (Client(rig, f"c{i}") for i in range(3))
    await stable(rig, leader, second)
    joins = [third.join(), leader.join(), second.join()]
    assert {answer_of(join).generation for join in joins} == {2}
    parked = second.sync()
    await rig.restart()
    with pytest.raises(NotCoordinator):
        parked.result()
    assert (rig.group.state, rig.group.generation) == (STABLE, 1)
    assert refused(leader.sync(assign_all((leader, second, third)))) is ErrorCode.illegal_generation
    assert refused(third.sync()) is ErrorCode.unknown_member_id


async def test_in_the_first_generation_that_never_was_assigned_knows_nobody() -> None:
    rig = await Rig.started()
    leader, second = Client(rig, "c1"), Client(rig, "c2")
    await completing(rig, leader, second)
    await rig.restart()
    assert (rig.group.state, rig.group.generation) == (EMPTY, 0)
    assert refused(leader.heartbeat()) is ErrorCode.unknown_member_id


async def test_with_a_lower_limit_of_members_a_group_above_it_rebalances() -> None:
    rig = await Rig.started()
    members = [Client(rig, f"c{i}") for i in range(3)]
    await stable(rig, *members)
    rig.config = type(rig.config)(initial_rebalance_delay_ms=0, max_size=2)
    rig.runtime.load(0, rig.log)
    await rig.runtime.loaded()
    assert rig.group.state is PREPARING
    joins = [member.join() for member in members]
    assert [answer_of(join).error for join in joins] == [
        ErrorCode.none,
        ErrorCode.none,
        ErrorCode.group_max_size_reached,
    ]


async def test_takes_the_gauges_and_timers_of_what_went_away_along() -> None:
    rig = await Rig.started()
    await stable(rig, Client(rig, "c1"), Client(rig, "c2"))
    answer_of(Client(rig, "c3", version=4).join())  # has an id, and is to come with it
    assert (rig.counts.groups[STABLE], rig.session_timers) == (1, 3)
    rig.runtime.unload(0)
    assert +rig.counts.groups == {}
    assert (rig.session_timers, rig.phase_timers) == (0, 0)
    await rig.restart()
    assert +rig.counts.groups == {STABLE: 1}
    assert rig.session_timers == 2


async def test_a_deleted_group_is_gone() -> None:
    rig = await Rig.started()
    member = Client(rig, "c1")
    await stable(rig, member)
    member.leave()
    rig.states.clear()
    answer_of(rig.runtime.write(0, lambda state: Outcome(state.groups.deletion(GROUP))))
    assert rig.shard.groups.find(GROUP) is None
    assert rig.states == [DEAD]
    await rig.restart()
    assert rig.shard.groups.find(GROUP) is None


async def test_groups_of_a_log_that_cannot_be_read_to_its_end_are_not_counted() -> None:
    rig = await Rig.started()
    await stable(rig, Client(rig, "c1"))
    rig.log.append(build_batch([Record(0, 0, None, b"what has no key")]))
    await rig.restart()
    assert refused(Client(rig, "c2").join()) is ErrorCode.not_coordinator
    assert not any(rig.counts.groups.values())
