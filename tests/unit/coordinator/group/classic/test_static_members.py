"""Static members (KIP-345): they come back with their instance id and take their place, also after a restart."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from coordinator.group.classic.members import MemberIdentity
from tests.unit.coordinator.group.rig import EMPTY, PREPARING, STABLE, Client, Rig
from tests.unit.coordinator.group.steps import answer_of, assign_all, completing, refused, stable, waits


def static(rig: Rig, number: int, version: int = 9, *protocols: str) -> Client:
    return Client(rig, f"c{number}", instance=f"i{number}", version=version, protocols=protocols or ("range",))


async def test_is_never_told_to_join_with_a_member_id_first() -> None:
    rig = await Rig.started()
    member = static(rig, 1)
    join = member.join()
    await rig.pass_ms(1)
    assert answer_of(join).generation == 1
    assert member.member_id.startswith("i1-")


async def test_a_follower_takes_its_place_in_a_stable_group() -> None:
    rig = await Rig.started()
    leader, follower = static(rig, 1), static(rig, 2)
    await stable(rig, leader, follower)
    again = static(rig, 2)
    answer = answer_of(again.join())
    assert (answer.error, answer.generation, answer.leader) == (ErrorCode.none, 1, leader.member_id)
    assert not answer.skip_assignment
    assert again.member_id != follower.member_id
    assert answer_of(again.sync()).assignment == assign_all((follower,))[follower.member_id]
    assert answer_of(leader.heartbeat()) is ErrorCode.none
    assert rig.states == []
    for request in (follower.heartbeat(), follower.sync(), follower.join()):
        assert refused(request) is ErrorCode.fenced_instance_id
    assert answer_of(follower.leave()) == (ErrorCode.fenced_instance_id,)


async def test_a_leader_that_knows_skip_assignment_is_told_the_members_and_to_assign_nothing() -> None:
    rig = await Rig.started()
    leader, follower = static(rig, 1), static(rig, 2)
    await stable(rig, leader, follower)
    again = static(rig, 1)
    answer = answer_of(again.join())
    assert (answer.leader, answer.skip_assignment) == (again.member_id, True)
    assert {member.group_instance_id for member in answer.members} == {"i1", "i2"}
    assert answer_of(again.sync()).assignment == assign_all((leader,))[leader.member_id]
    assert answer_of(follower.heartbeat()) is ErrorCode.none
    assert rig.states == []


async def test_an_older_leader_is_told_that_the_one_before_it_leads() -> None:
    rig = await Rig.started()
    leader, follower = static(rig, 1, 8), static(rig, 2, 8)
    await stable(rig, leader, follower)
    again = static(rig, 1, 8)
    answer = answer_of(again.join())
    assert (answer.leader, answer.skip_assignment, answer.members) == (leader.member_id, False, ())
    assert rig.group.leader_id == again.member_id
    assert rig.states == []


async def test_other_metadata_that_leave_the_protocol_cause_no_rebalance() -> None:
    rig = await Rig.started()
    leader, follower = static(rig, 1, 9, "range", "sticky"), static(rig, 2, 9, "range")
    await stable(rig, leader, follower)
    again = static(rig, 2, 9, "range", "sticky")
    assert answer_of(again.join()).protocol_name == "range"
    assert rig.states == []


async def test_another_protocol_causes_a_rebalance() -> None:
    rig = await Rig.started()
    leader, follower = static(rig, 1, 9, "range", "sticky"), static(rig, 2, 9, "range", "sticky")
    await stable(rig, leader, follower)
    again = static(rig, 2, 9, "sticky")
    join = again.join()
    assert rig.states == [PREPARING]
    rejoin = leader.join()
    assert (answer_of(join).protocol_name, answer_of(rejoin).protocol_name) == ("sticky", "sticky")


async def test_while_assignments_are_awaited_its_coming_back_causes_a_rebalance_and_fences_who_waits() -> None:
    rig = await Rig.started()
    leader, follower = static(rig, 1), static(rig, 2)
    await completing(rig, leader, follower)
    parked = follower.sync()
    again = static(rig, 2)
    join = again.join()
    assert refused(parked) is ErrorCode.fenced_instance_id
    assert waits(join)
    assert rig.states == [PREPARING]
    assert answer_of(leader.join()).generation == answer_of(join).generation == 2


async def test_while_a_rebalance_is_prepared_it_waits_in_the_place_of_who_waited() -> None:
    rig = await Rig.started()
    leader, follower, third = static(rig, 1), static(rig, 2), Client(rig, "c3")
    await stable(rig, leader, follower)
    joins = [third.join(), follower.join()]
    again = static(rig, 2)
    join = again.join()
    assert refused(joins[1]) is ErrorCode.fenced_instance_id
    assert waits(join, joins[0])
    assert answer_of(leader.join()).generation == answer_of(join).generation == answer_of(joins[0]).generation == 2


async def test_the_instance_ids_outlive_a_restart_of_the_coordinator() -> None:
    rig = await Rig.started()
    leader, follower = static(rig, 1), static(rig, 2)
    await stable(rig, leader, follower)
    again = static(rig, 2)
    answer_of(again.join())
    await rig.restart()
    assert rig.group.state is STABLE
    assert refused(follower.heartbeat()) is ErrorCode.fenced_instance_id
    assert answer_of(again.heartbeat()) is ErrorCode.none
    once_more = static(rig, 2)
    assert answer_of(once_more.join()).generation == 1
    assert answer_of(once_more.sync()).assignment == assign_all((follower,))[follower.member_id]
    assert refused(again.heartbeat()) is ErrorCode.fenced_instance_id
    assert rig.states == []


async def test_is_not_expelled_for_missing_a_rebalance_but_by_its_session() -> None:
    rig = await Rig.started()
    leader = Client(rig, "c1", rebalance_ms=5_000)
    absent = Client(rig, "c2", instance="i2", rebalance_ms=5_000, session_ms=30_000)
    await stable(rig, leader, absent)
    join = leader.join()
    await rig.pass_ms(5_100)
    assert answer_of(join).generation == 2
    assert absent.member_id in rig.group.members
    answer_of(leader.sync(assign_all((leader, absent))))
    for _ in range(6):
        await rig.pass_ms(5_000)
        leader.heartbeat()
    assert absent.member_id not in rig.group.members


async def test_having_come_back_before_it_synced_it_stays_when_the_sync_phase_times_out() -> None:
    rig = await Rig.started()
    leader, follower = static(rig, 1), static(rig, 2)
    await completing(rig, leader, follower)
    answer_of(leader.sync(assign_all((leader, follower))))
    again = static(rig, 2)
    answer_of(again.join())
    answer_of(again.sync())
    rig.states.clear()
    for _ in range(7):
        await rig.pass_ms(9_000)
        beats = [leader.heartbeat(), again.heartbeat()]
    assert rig.states == [PREPARING]
    assert [refused(beat) for beat in beats] == [ErrorCode.rebalance_in_progress] * 2


async def test_an_unknown_instance_id_makes_a_known_member_unknown() -> None:
    rig = await Rig.started()
    member = Client(rig, "c1")
    await stable(rig, member)
    member.instance = "i1"
    assert refused(member.heartbeat()) is ErrorCode.unknown_member_id
    assert refused(member.join()) is ErrorCode.unknown_member_id


async def test_no_instance_id_is_not_the_empty_one() -> None:
    rig = await Rig.started()
    member = Client(rig, "c1", instance="", version=9)
    await stable(rig, member)
    assert answer_of(rig.leave(MemberIdentity("", None))) == (ErrorCode.unknown_member_id,)
    newcomer = Client(rig, "c2", version=3)
    waits(newcomer.join())
    assert rig.group.static_ids == {"": member.member_id}
    assert rig.group.state is PREPARING


async def test_its_first_session_lasts_as_long_as_its_predecessors_as_in_kafka() -> None:
    rig = await Rig.started()
    before = static(rig, 1)
    before.session_ms = 30_000
    await stable(rig, before)
    again = static(rig, 1)
    again.session_ms = 10_000
    answer_of(again.join())
    await rig.pass_ms(29_000)
    assert answer_of(again.heartbeat()) is ErrorCode.none
    await rig.pass_ms(9_000)
    assert rig.states == []
    await rig.pass_ms(1_100)
    assert rig.states == [PREPARING, EMPTY]
