"""LeaveGroup in each state, of one and of several members, by member id and by instance id."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from coordinator.group.classic.members import MemberIdentity
from protocol.errors import KafkaStorage
from tests.unit.coordinator.group.rig import COMPLETING, EMPTY, PREPARING, STABLE, Client, Rig
from tests.unit.coordinator.group.steps import answer_of, completing, refused, stable, waits


async def test_of_a_stable_group_causes_a_rebalance() -> None:
    rig = await Rig.started()
    leader, second = Client(rig, "c1"), Client(rig, "c2")
    await stable(rig, leader, second)
    assert answer_of(second.leave()) == (ErrorCode.none,)
    assert rig.states == [PREPARING]
    assert answer_of(leader.heartbeat()) is ErrorCode.rebalance_in_progress
    assert answer_of(leader.join()).generation == 2


async def test_while_assignments_are_awaited_sends_the_others_back() -> None:
    rig = await Rig.started()
    leader, second, third = (Client(rig, f"c{i}") for i in range(3))
    await completing(rig, leader, second, third)
    parked = second.sync()
    answer_of(third.leave())
    assert refused(parked) is ErrorCode.rebalance_in_progress
    assert rig.states == [PREPARING]
    assert refused(leader.sync({})) is ErrorCode.rebalance_in_progress


async def test_of_a_member_that_awaits_its_assignment_ends_its_wait() -> None:
    rig = await Rig.started()
    leader, second = Client(rig, "c1"), Client(rig, "c2")
    await completing(rig, leader, second)
    parked = second.sync()
    answer_of(second.leave())
    assert refused(parked) is ErrorCode.unknown_member_id


async def test_while_a_rebalance_is_prepared_may_end_the_join_phase() -> None:
    rig = await Rig.started()
    leader, second = Client(rig, "c1"), Client(rig, "c2")
    await stable(rig, leader, second)
    join = leader.join()
    assert waits(join)
    answer_of(second.leave())
    assert answer_of(join).generation == 2
    assert [m.member_id for m in answer_of(join).members] == [leader.member_id]
    assert rig.states == [PREPARING, COMPLETING]


async def test_of_a_member_that_waits_for_the_join_phase_ends_its_wait() -> None:
    rig = await Rig.started()
    leader, second = Client(rig, "c1"), Client(rig, "c2")
    await stable(rig, leader, second)
    third = Client(rig, "c3").join()
    parked = second.join()
    assert waits(parked, third)
    answer_of(second.leave())
    assert refused(parked) is ErrorCode.unknown_member_id
    assert waits(third)


async def test_does_not_shorten_the_initial_delay() -> None:
    rig = await Rig.started(initial_rebalance_delay_ms=3000)
    first, second = Client(rig, "c1"), Client(rig, "c2", version=4)
    join = first.join()
    second.join()
    answer_of(second.leave())
    assert waits(join)
    await rig.pass_ms(3_100)
    assert answer_of(join).generation == 1


async def test_of_the_last_member_leaves_the_group_empty_and_recorded() -> None:
    rig = await Rig.started()
    member = Client(rig, "c1")
    await stable(rig, member)
    assert answer_of(member.leave()) == (ErrorCode.none,)
    assert rig.states == [PREPARING, EMPTY]
    record = rig.records()[-1]
    assert record is not None
    assert (record.generation, record.protocol_type, record.protocol, record.leader) == (2, "consumer", None, None)
    assert record.members == ()
    assert record.current_state_timestamp == rig.clock.wall_ms()


async def test_of_the_last_member_is_answered_once_that_is_committed() -> None:
    rig = await Rig.started()
    member = Client(rig, "c1")
    await stable(rig, member)
    rig.log.hold = True
    left = member.leave()
    assert waits(left)
    rig.log.commit()
    assert answer_of(left) == (ErrorCode.none,)


async def test_of_an_empty_or_unknown_group_knows_nobody() -> None:
    rig = await Rig.started()
    member = Client(rig, "c1")
    assert answer_of(rig.leave(MemberIdentity("a"), MemberIdentity("b"))) == (ErrorCode.unknown_member_id,) * 2
    await stable(rig, member)
    member.leave()
    assert answer_of(member.leave()) == (ErrorCode.unknown_member_id,)
    assert rig.group.state is EMPTY


async def test_of_a_member_whose_id_is_not_used_yet_lets_the_others_go_on() -> None:
    rig = await Rig.started()
    leader, pending = Client(rig, "c1"), Client(rig, "c2", version=4)
    await stable(rig, leader)
    answer_of(pending.join())
    join = leader.join()
    assert waits(join)
    assert answer_of(pending.leave()) == (ErrorCode.none,)
    assert answer_of(join).generation == 2


async def test_of_several_members_answers_for_each() -> None:
    rig = await Rig.started()
    leader, second, third = Client(rig, "c1"), Client(rig, "c2"), Client(rig, "c3", instance="i3")
    await stable(rig, leader, second, third)
    answer = answer_of(
        rig.leave(
            MemberIdentity(second.member_id, reason="closing"),
            MemberIdentity("stranger"),
            MemberIdentity("", "i3"),
            MemberIdentity("", "unknown instance"),
            MemberIdentity("", None),
            MemberIdentity(leader.member_id, "i3"),
        )
    )
    none, unknown = ErrorCode.none, ErrorCode.unknown_member_id
    assert answer == (none, unknown, none, unknown, unknown, unknown)
    assert list(rig.group.members) == [leader.member_id]
    assert rig.states == [PREPARING]


async def test_fenced_instance_id_for_who_leaves_with_an_old_member_id() -> None:
    rig = await Rig.started()
    member = Client(rig, "c1", instance="i1")
    await stable(rig, member)
    assert answer_of(rig.leave(MemberIdentity("somebody", "i1"))) == (ErrorCode.fenced_instance_id,)
    assert rig.group.state is STABLE


async def test_of_members_nobody_knows_changes_nothing() -> None:
    rig = await Rig.started()
    leader, second = Client(rig, "c1"), Client(rig, "c2")
    await completing(rig, leader, second)
    assert answer_of(rig.leave(MemberIdentity("stranger"))) == (ErrorCode.unknown_member_id,)
    assert answer_of(rig.leave()) == ()
    assert rig.group.state is COMPLETING


async def test_of_the_last_member_empties_the_group_even_if_that_cannot_be_written() -> None:
    rig = await Rig.started()
    client = Client(rig)
    await stable(rig, client)
    rig.log.fail_with = KafkaStorage()
    assert answer_of(client.leave()) == (ErrorCode.none,)
    rig.log.fail_with = None
    assert rig.states == [PREPARING, EMPTY]
    join = Client(rig).join()
    await rig.pass_ms(5)
    assert answer_of(join).generation == 3
    await rig.restart()
    assert rig.group.generation == 1  # what is in the log: the former member, until its session ends
    await rig.pass_ms(client.session_ms)
    assert rig.group.state is EMPTY
