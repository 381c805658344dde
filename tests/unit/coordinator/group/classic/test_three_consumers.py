"""Three consumers come to a group: with one, two and three rebalances, and exactly the states on the way.

With `group.initial.rebalance.delay.ms` 0, as in the times when a group began in Stable; it begins in Empty now.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from tests.unit.coordinator.group.rig import COMPLETING, EMPTY, PREPARING, STABLE, Client, Rig
from tests.unit.coordinator.group.steps import answer_of, assign_all, waits


async def _all_leave(rig: Rig, *members: Client) -> None:
    rig.states.clear()
    for member in members:
        assert answer_of(member.leave()) == (ErrorCode.none,)
    assert rig.group.state is EMPTY
    assert not rig.group.members


async def test_three_consumers_at_the_same_time_share_one_assignment() -> None:
    rig = await Rig.started()
    first, second, third = Client(rig, "c3"), Client(rig, "c2"), Client(rig, "c1")

    alone = first.join()
    await rig.pass_ms(1)
    assert answer_of(alone).leader == first.member_id
    assert rig.states == [PREPARING, COMPLETING]

    second_join = second.join()
    assert rig.group.state is PREPARING
    third_join = third.join()
    assert waits(second_join, third_join)
    too_late = first.sync({first.member_id: b"everything"})
    assert too_late.exception() is not None
    assert too_late.exception().code is ErrorCode.rebalance_in_progress

    again = first.join()
    for join in (again, second_join, third_join):
        answer = answer_of(join)
        assert (answer.error, answer.generation, answer.leader) == (ErrorCode.none, 2, first.member_id)
    assert [m.member_id for m in answer_of(again).members] == [first.member_id, second.member_id, third.member_id]
    assert answer_of(second_join).members == answer_of(third_join).members == ()

    shares = assign_all((first, second, third))
    followers = [second.sync(), third.sync()]
    assert waits(*followers)
    answers = [first.sync(shares), *followers]
    assert [answer_of(a).assignment for a in answers] == [shares[m.member_id] for m in (first, second, third)]
    assert rig.states == [PREPARING, COMPLETING, PREPARING, COMPLETING, STABLE]
    assert rig.counts.completed_rebalances == 1

    await _all_leave(rig, first, second, third)
    assert rig.states == [PREPARING, EMPTY]


async def test_two_consumers_that_come_later_cause_a_second_rebalance() -> None:
    rig = await Rig.started()
    first, second, third = Client(rig, "c1"), Client(rig, "c2"), Client(rig, "c3")

    alone = first.join()
    await rig.pass_ms(1000)
    assert answer_of(alone).generation == 1
    assert answer_of(first.sync({first.member_id: b"all"})).assignment == b"all"
    assert rig.states == [PREPARING, COMPLETING, STABLE]

    joins = [second.join()]
    assert answer_of(first.heartbeat()) is ErrorCode.rebalance_in_progress
    await rig.pass_ms(1000)
    joins.append(third.join())
    assert waits(*joins)
    joins.append(first.join())
    assert {answer_of(join).generation for join in joins} == {2}

    shares = assign_all((first, second, third))
    assert answer_of(first.sync(shares)).assignment == shares[first.member_id]
    assert answer_of(second.sync()).assignment == shares[second.member_id]
    assert answer_of(third.sync()).assignment == shares[third.member_id]
    assert rig.states == [PREPARING, COMPLETING, STABLE, PREPARING, COMPLETING, STABLE]
    assert rig.counts.completed_rebalances == 2

    await _all_leave(rig, first, second, third)


async def test_three_consumers_one_after_another_cause_three_rebalances() -> None:
    rig = await Rig.started()
    first, second, third = Client(rig, "c1"), Client(rig, "c2"), Client(rig, "c3")

    alone = first.join()
    await rig.pass_ms(1000)
    assert answer_of(alone).generation == 1
    assert answer_of(first.sync({first.member_id: b"all"})).assignment == b"all"

    members = [first]
    for newcomer in (second, third):
        joins = [newcomer.join()]
        assert waits(*joins)
        for member in members:
            assert answer_of(member.heartbeat()) is ErrorCode.rebalance_in_progress
            joins.append(member.join())
        members.append(newcomer)
        assert {answer_of(join).generation for join in joins} == {len(members)}
        shares = assign_all(members)
        syncs = [member.sync() for member in members[1:]]
        syncs.insert(0, first.sync(shares))
        assert [answer_of(sync).assignment for sync in syncs] == [shares[member.member_id] for member in members]
        await rig.pass_ms(2000)

    assert rig.states == [PREPARING, COMPLETING, STABLE] * 3
    assert rig.counts.completed_rebalances == 3

    await _all_leave(rig, first, second, third)


async def test_three_consumers_within_the_initial_delay_share_one_join_phase() -> None:
    rig = await Rig.started(initial_rebalance_delay_ms=3000)
    members = [Client(rig, f"c{i}") for i in range(3)]
    joins = []
    for member in members:
        joins.append(member.join())
        await rig.pass_ms(500)
    assert waits(*joins)
    await rig.pass_ms(4600)
    assert {answer_of(join).generation for join in joins} == {1}
    assert answer_of(members[0].sync(assign_all(members))).error is ErrorCode.none
    assert rig.states == [PREPARING, COMPLETING, STABLE]


async def test_member_id_required_and_the_members_that_got_an_id_are_waited_for() -> None:
    rig = await Rig.started()
    members = [Client(rig, f"c{i}", version=4) for i in range(3)]
    for member in members:
        answer = answer_of(member.join())
        assert answer.error is ErrorCode.member_id_required
        assert answer.member_id.startswith(f"{member.name}-")
    first = members[0].join()
    await rig.pass_ms(1)
    assert answer_of(first).generation == 1  # the initial delay is not for those who are expected
    joins = [members[1].join(), members[0].join()]
    assert waits(*joins)
    joins.append(members[2].join())
    assert {answer_of(join).generation for join in joins} == {2}
