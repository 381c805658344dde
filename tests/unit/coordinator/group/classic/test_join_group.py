"""Who may join a group, which protocol it chooses, and when its first join phase ends."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from coordinator.group.classic.join import check_request
from coordinator.group.classic.members import JoinRequest, MemberProtocol
from coordinator.group.kinds import GroupConfig
from tests.unit.coordinator.group.rig import COMPLETING, PREPARING, Client, Rig, subscription
from tests.unit.coordinator.group.steps import answer_of, completing, refused, stable, waits


def request(group: str = "g", session_ms: int = 10_000, metadata: bytes = b"", kind: str = "consumer") -> JoinRequest:
    protocols = (MemberProtocol("range", metadata),)
    return JoinRequest(group, "", None, "client", "/127.0.0.1", session_ms, 60_000, kind, protocols)


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (request(), ErrorCode.none),
        (request(group=""), ErrorCode.invalid_group_id),
        (request(session_ms=5_999), ErrorCode.invalid_session_timeout),
        (request(session_ms=6_000), ErrorCode.none),
        (request(session_ms=1_800_000), ErrorCode.none),
        (request(session_ms=1_800_001), ErrorCode.invalid_session_timeout),
        (request(metadata=subscription("a", "b")), ErrorCode.none),
        (request(metadata=b"\0\0\0\0"), ErrorCode.none),
        (request(metadata=b"\0\0\x7f\xff\xff\xff"), ErrorCode.invalid_request),
        (request(metadata=b"\0\0\0\0\0\1\0\5ab"), ErrorCode.invalid_request),
        (request(metadata=b"\0\0\x7f\xff\xff\xff", kind="connect"), ErrorCode.none),
    ],
)
def test_requests_are_checked_by_themselves(asked: JoinRequest, code: ErrorCode) -> None:
    assert check_request(asked, GroupConfig()) is code


async def test_the_first_to_join_leads() -> None:
    rig = await Rig.started()
    members = [Client(rig, f"c{i}") for i in range(3)]
    joins = [member.join() for member in members]
    await rig.pass_ms(5)
    assert {answer_of(join).leader for join in joins} == {members[0].member_id}


async def test_a_leader_that_does_not_rejoin_is_replaced_by_one_that_did() -> None:
    rig = await Rig.started()
    leader, second, third = (Client(rig, f"c{i}", rebalance_ms=5_000) for i in range(3))
    await stable(rig, leader, second, third)
    joins = [third.join("changed"), second.join()]
    third.protocols = (MemberProtocol("range", subscription("other")),)
    joins[0] = third.join()
    assert rig.states == [PREPARING]
    joins[1] = second.join()
    await rig.pass_ms(5_100)
    assert {answer_of(join).leader for join in joins} == {second.member_id}


@pytest.mark.parametrize(
    ("preferences", "chosen"),
    [
        (["range sticky", "range sticky", "sticky range"], "range"),
        (["range sticky", "sticky range", "sticky range"], "sticky"),
        (["range sticky", "sticky", "sticky range"], "sticky"),
        (["cooperative range", "sticky range", "roundrobin range"], "range"),
        (["range range"], "range"),
        (["range sticky", "sticky sticky", "sticky"], "sticky"),
    ],
)
async def test_the_protocol_that_all_support_and_most_prefer_is_chosen(preferences: list[str], chosen: str) -> None:
    rig = await Rig.started()
    members = [Client(rig, f"c{i}", protocols=names.split()) for i, names in enumerate(preferences)]
    joins = [member.join() for member in members]
    await rig.pass_ms(5)
    assert {answer_of(join).protocol_name for join in joins} == {chosen}


async def test_inconsistent_group_protocol_for_a_member_with_none_in_common() -> None:
    rig = await Rig.started()
    await completing(rig, Client(rig, "c1", protocols=("range",)))
    assert refused(Client(rig, "c2", protocols=("sticky",)).join()) is ErrorCode.inconsistent_group_protocol
    assert rig.group.state is COMPLETING


async def test_a_full_group_turns_the_next_one_away() -> None:
    rig = await Rig.started(max_size=2)
    members = [Client(rig, f"c{i}") for i in range(2)]
    await stable(rig, *members)
    assert refused(Client(rig, "c3").join()) is ErrorCode.group_max_size_reached
    assert rig.states == []
    assert answer_of(members[1].leave()) == (ErrorCode.none,)
    join = Client(rig, "c3").join()
    assert answer_of(members[0].join()).generation == answer_of(join).generation == 2


async def test_unknown_member_id_for_an_id_that_was_never_given_out() -> None:
    rig = await Rig.started()
    stranger = Client(rig, "c1")
    stranger.member_id = "stranger"
    assert refused(stranger.join()) is ErrorCode.unknown_member_id
    assert rig.shard.groups.find("readers") is None
    await completing(rig, Client(rig, "c2"))
    assert refused(stranger.join()) is ErrorCode.unknown_member_id


async def test_group_initial_rebalance_delay_ms_begins_anew_while_members_come_up_to_the_rebalance_timeout() -> None:
    rig = await Rig.started(initial_rebalance_delay_ms=3_000)
    joins = []
    for number in range(5):
        joins.append(Client(rig, f"c{number}", rebalance_ms=10_000).join())
        await rig.pass_ms(1_980)
    assert waits(*joins)
    await rig.pass_ms(200)
    assert {answer_of(join).generation for join in joins} == {1}


async def test_the_initial_delay_ends_once_nobody_came_for_its_length() -> None:
    rig = await Rig.started(initial_rebalance_delay_ms=3_000)
    join = Client(rig, "c1").join()
    await rig.pass_ms(2_900)
    assert waits(join)
    await rig.pass_ms(200)
    assert answer_of(join).generation == 1


async def test_a_member_id_handed_out_is_good_for_one_member_alone() -> None:
    rig = await Rig.started()
    member = Client(rig, "c1", version=4)
    assert refused(member.join()) is ErrorCode.member_id_required
    assert list(rig.group.pending) == [member.member_id]
    join = member.join()
    await rig.pass_ms(1)
    assert answer_of(join).member_id == member.member_id
    assert not rig.group.pending


async def test_a_member_that_joins_again_with_other_protocols_is_chosen_for_by_these() -> None:
    rig = await Rig.started()
    leader = Client(rig, "c1", protocols=("range", "sticky"))
    second = Client(rig, "c2", protocols=("range", "sticky"))
    await stable(rig, leader, second)
    second.protocols = (MemberProtocol("sticky", b"other topics"),)
    joins = [second.join(), leader.join()]
    assert {answer_of(join).protocol_name for join in joins} == {"sticky"}
    assert b"other topics" in {member.metadata for member in answer_of(joins[1]).members}
    second.protocols = (MemberProtocol("range", b"back"), MemberProtocol("sticky", b""))
    joins = [second.join(), leader.join()]
    assert {answer_of(join).protocol_name for join in joins} == {"range"}
