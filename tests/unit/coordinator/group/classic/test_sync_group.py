"""SyncGroup in each order and each state."""

from __future__ import annotations

import itertools

import pytest
from kio.schema.errors import ErrorCode

from protocol.errors import MessageTooLarge
from tests.unit.coordinator.group.rig import COMPLETING, EMPTY, PREPARING, STABLE, Client, Rig
from tests.unit.coordinator.group.steps import answer_of, assign_all, completing, refused, stable, waits


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
async def test_in_any_order_followers_wait_for_the_leader_and_nobody_for_the_rest(order: tuple[int, ...]) -> None:
    rig = await Rig.started()
    members = [Client(rig, f"c{i}") for i in range(3)]
    await completing(rig, *members)
    shares = assign_all(members)
    answers = {}
    for i in order:
        answers[i] = members[i].sync(shares if i == 0 else None)
        if 0 in answers:
            assert rig.group.state is STABLE
            assert all(answer.done() for answer in answers.values())
        else:
            assert waits(*answers.values())
    assert {i: answer_of(answer).assignment for i, answer in answers.items()} == {
        i: shares[member.member_id] for i, member in enumerate(members)
    }
    assert {(answer_of(a).protocol_type, answer_of(a).protocol_name) for a in answers.values()} == {
        ("consumer", "range")
    }
    assert rig.states == [STABLE]


async def test_of_a_new_member_comes_too_late_for_the_leader_once_a_rebalance_is_prepared() -> None:
    rig = await Rig.started()
    leader, second = Client(rig, "c1"), Client(rig, "c2")
    await completing(rig, leader)
    second.join()
    assert rig.group.state is PREPARING
    assert refused(leader.sync({leader.member_id: b"all"})) is ErrorCode.rebalance_in_progress
    assert answer_of(leader.join()).generation == 2


async def test_followers_that_wait_are_sent_back_when_somebody_joins() -> None:
    rig = await Rig.started()
    leader, second = Client(rig, "c1"), Client(rig, "c2")
    await completing(rig, leader, second)
    parked = second.sync()
    Client(rig, "c3").join()
    assert refused(parked) is ErrorCode.rebalance_in_progress


async def test_sent_twice_the_later_one_waits_and_the_earlier_is_given_up() -> None:
    rig = await Rig.started()
    leader, second = Client(rig, "c1"), Client(rig, "c2")
    await completing(rig, leader, second)
    lost = second.sync()
    again = second.sync()
    assert refused(lost) is ErrorCode.rebalance_in_progress
    assert waits(again)
    leader.sync(assign_all((leader, second)))
    assert answer_of(again).error is ErrorCode.none


async def test_in_an_empty_or_unknown_group_nobody_is_known() -> None:
    rig = await Rig.started()
    member = Client(rig, "c1")
    assert refused(member.sync(generation=1)) is ErrorCode.unknown_member_id
    await stable(rig, member)
    member.leave()
    assert rig.group.state is EMPTY
    assert refused(member.sync()) is ErrorCode.unknown_member_id


async def test_sync_group_must_name_the_member_the_generation_and_the_protocol() -> None:
    rig = await Rig.started()
    leader, stranger = Client(rig, "c1"), Client(rig, "c2")
    await completing(rig, leader)
    stranger.member_id = "stranger"
    assert refused(stranger.sync(generation=1)) is ErrorCode.unknown_member_id
    assert refused(leader.sync(generation=0)) is ErrorCode.illegal_generation
    assert refused(leader.sync(generation=2)) is ErrorCode.illegal_generation
    for wrong in ({"protocol_type": "connect"}, {"protocol_name": "roundrobin"}):
        assert refused(leader.sync(None, **wrong)) is ErrorCode.inconsistent_group_protocol
    assert rig.group.state is COMPLETING
    assert answer_of(leader.sync(protocol_type="consumer", protocol_name="range")).error is ErrorCode.none


async def test_members_that_the_leader_leaves_out_get_nothing() -> None:
    rig = await Rig.started()
    leader, second = Client(rig, "c1"), Client(rig, "c2")
    await completing(rig, leader, second)
    parked = second.sync()
    leader.sync({leader.member_id: b"all", "stranger": b"none"})
    assert answer_of(parked).assignment == b""
    record = rig.records()[-1]
    assert record is not None
    assert {m.member_id: m.assignment for m in record.members} == {leader.member_id: b"all", second.member_id: b""}


async def test_members_that_do_not_sync_within_the_rebalance_timeout_are_removed() -> None:
    rig = await Rig.started()
    leader, second, third = (Client(rig, f"c{i}", session_ms=90_000) for i in range(3))
    await completing(rig, leader, second, third)
    parked = second.sync()
    await rig.pass_ms(59_000)
    assert waits(parked)
    await rig.pass_ms(1_100)
    assert refused(parked) is ErrorCode.rebalance_in_progress
    assert list(rig.group.members) == [second.member_id]
    assert rig.group.leader_id == second.member_id
    assert answer_of(second.join()).generation == 2
    assert rig.states == [PREPARING, COMPLETING]


async def test_a_group_in_which_nobody_syncs_is_empty_after_the_rebalance_timeout() -> None:
    rig = await Rig.started()
    members = [Client(rig, f"c{i}", session_ms=90_000) for i in range(2)]
    await completing(rig, *members)
    await rig.pass_ms(60_100)
    assert rig.states == [PREPARING, EMPTY]
    assert rig.group.generation == 2


async def test_the_sync_phase_of_a_stable_group_ends_without_who_did_not_sync() -> None:
    rig = await Rig.started()
    leader, second = (Client(rig, f"c{i}", session_ms=90_000) for i in range(2))
    await completing(rig, leader, second)
    leader.sync(assign_all((leader, second)))
    await rig.pass_ms(60_100)
    assert rig.states == [STABLE, PREPARING]
    assert list(rig.group.members) == [leader.member_id]


async def test_heartbeats_do_not_stand_for_a_sync() -> None:
    rig = await Rig.started()
    leader, second = (Client(rig, f"c{i}") for i in range(2))
    await completing(rig, leader, second)
    leader.sync(assign_all((leader, second)))
    for _ in range(12):
        await rig.pass_ms(5_000)
        for member in (leader, second):
            member.heartbeat()
    await rig.pass_ms(100)
    assert list(rig.group.members) == [leader.member_id]


async def test_assignments_too_large_to_be_stored_send_everybody_back() -> None:
    rig = await Rig.started()
    leader, second = Client(rig, "c1"), Client(rig, "c2")
    await completing(rig, leader, second)
    parked = second.sync()
    rig.log.fail_with = MessageTooLarge()
    failed = leader.sync(assign_all((leader, second)))
    rig.log.fail_with = None
    assert refused(failed) is ErrorCode.unknown_server_error
    assert refused(parked) is ErrorCode.unknown_server_error
    assert rig.states == [PREPARING]
    joins = [leader.join(), second.join()]
    assert {answer_of(join).generation for join in joins} == {2}


async def test_assignments_are_told_once_they_are_committed() -> None:
    rig = await Rig.started()
    leader, second = Client(rig, "c1"), Client(rig, "c2")
    await completing(rig, leader, second)
    rig.log.hold = True
    answers = [second.sync(), leader.sync(assign_all((leader, second))), second.sync()]
    assert waits(*answers[1:])
    rig.log.commit()
    assert all(answer.done() for answer in answers)
