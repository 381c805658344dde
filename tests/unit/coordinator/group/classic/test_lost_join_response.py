"""A member that did not get the answer to its JoinGroup sends it again, in whichever state the group is by then."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from tests.unit.coordinator.group.rig import COMPLETING, PREPARING, STABLE, Client, Rig
from tests.unit.coordinator.group.steps import answer_of, assign_all, completing, refused, stable, waits


async def test_a_follower_in_a_stable_group_is_answered_at_once() -> None:
    rig = await Rig.started()
    leader, second, third = (Client(rig, f"c{i}") for i in range(3))
    await completing(rig, leader, second, third)
    parked = second.sync()
    shares = assign_all((leader, second, third))
    assert answer_of(leader.sync(shares)).assignment == shares[leader.member_id]
    assert answer_of(parked).assignment == shares[second.member_id]
    assert rig.states == [STABLE]

    answer = answer_of(third.join())
    assert (answer.error, answer.generation, answer.leader) == (ErrorCode.none, 1, leader.member_id)
    assert answer.members == ()
    assert answer_of(third.sync()).assignment == shares[third.member_id]
    assert rig.states == [STABLE]


async def test_a_leader_whose_answer_was_lost_assigns_after_it_asks_again() -> None:
    rig = await Rig.started()
    leader, second, third = (Client(rig, f"c{i}") for i in range(3))
    await completing(rig, leader, second, third)
    parked = [second.sync(), third.sync()]
    assert waits(*parked)

    answer = answer_of(leader.join())
    assert (answer.error, answer.generation, answer.leader) == (ErrorCode.none, 1, leader.member_id)
    assert len(answer.members) == 3
    assert waits(*parked)
    assert rig.group.state is COMPLETING

    shares = assign_all((leader, second, third))
    assert answer_of(leader.sync(shares)).assignment == shares[leader.member_id]
    assert [answer_of(sync).assignment for sync in parked] == [shares[second.member_id], shares[third.member_id]]
    assert rig.states == [STABLE]


async def test_a_follower_while_assignments_are_awaited_is_answered_at_once() -> None:
    rig = await Rig.started()
    leader, second = Client(rig, "c1"), Client(rig, "c2")
    await completing(rig, leader, second)
    answer = answer_of(second.join())
    assert (answer.generation, answer.members) == (1, ())
    assert rig.states == []


async def test_other_protocols_while_assignments_are_awaited_cause_a_rebalance() -> None:
    rig = await Rig.started()
    leader, second = Client(rig, "c1"), Client(rig, "c2")
    await completing(rig, leader, second)
    parked = second.sync()
    second_again = Client(rig, "c2", protocols=("range", "roundrobin"))
    second_again.member_id = second.member_id
    join = second_again.join()
    assert waits(join)
    assert refused(parked) is ErrorCode.rebalance_in_progress
    assert rig.states == [PREPARING]
    assert answer_of(leader.join()).generation == answer_of(join).generation == 2


async def test_the_leader_of_a_stable_group_causes_a_rebalance() -> None:
    rig = await Rig.started()
    leader, second = Client(rig, "c1"), Client(rig, "c2")
    await stable(rig, leader, second)
    join = leader.join()
    assert waits(join)
    assert rig.states == [PREPARING]
    assert answer_of(second.join()).generation == answer_of(join).generation == 2
    assert rig.states == [PREPARING, COMPLETING]


async def test_a_follower_of_a_stable_group_with_other_metadata_causes_a_rebalance() -> None:
    rig = await Rig.started()
    leader, second = Client(rig, "c1"), Client(rig, "c2")
    await stable(rig, leader, second)
    changed = Client(rig, "c2", protocols=("range", "sticky"))
    changed.member_id = second.member_id
    join = changed.join()
    assert waits(join)
    assert rig.states == [PREPARING]
    leader.join()
    assert answer_of(join).generation == 2


async def test_while_a_rebalance_is_prepared_the_later_request_waits_and_the_earlier_is_given_up() -> None:
    rig = await Rig.started()
    leader, second, third = (Client(rig, f"c{i}") for i in range(3))
    await stable(rig, leader, second, third)
    lost = leader.join()
    assert waits(lost)
    again = leader.join()
    assert refused(lost) is ErrorCode.rebalance_in_progress
    assert waits(again)
    second.join()
    third.join()
    assert answer_of(again).generation == 2
    assert rig.states == [PREPARING, COMPLETING]
