"""A group's members have the order in which they came, and the one that has been there longest leads."""

from __future__ import annotations

from tests.unit.coordinator.group.rig import Client, Rig
from tests.unit.coordinator.group.steps import answer_of, assign_all, stable


def ids(*members: Client) -> list[str]:
    return [member.member_id for member in members]


async def three() -> tuple[Rig, list[Client]]:
    rig = await Rig.started()
    members = [Client(rig, name) for name in "bca"]
    await stable(rig, *members)
    return rig, members


async def test_the_leader_a_description_and_a_record_have_them_in_that_order() -> None:
    rig, members = await three()
    record = rig.records()[-1]
    assert record is not None
    assert [member.member_id for member in record.members] == ids(*members)
    assert [member.member_id for member in rig.group.members.values()] == ids(*members)
    joins = [member.join() for member in members]
    await rig.pass_ms(5)
    assert [member.member_id for member in answer_of(joins[0]).members] == ids(*members)


async def test_the_next_one_leads_when_the_leader_leaves() -> None:
    rig, members = await three()
    answer_of(members[0].leave())
    joins = [member.join() for member in members[1:]]
    await rig.pass_ms(5)
    assert {answer_of(join).leader for join in joins} == {members[1].member_id}


async def test_it_survives_a_start() -> None:
    rig, members = await three()
    answer_of(members[0].leave())
    joins = [member.join() for member in members[1:]]
    await rig.pass_ms(5)
    assert [member.member_id for member in answer_of(joins[0]).members] == ids(*members[1:])
    answer_of(members[1].sync(assign_all(members[1:])))
    await rig.restart()
    assert [member.member_id for member in rig.group.members.values()] == ids(*members[1:])


async def test_a_static_member_that_comes_back_to_a_stable_group_keeps_its_place() -> None:
    rig = await Rig.started()
    members = [Client(rig, name, instance="judge" if name == "c" else None) for name in "bca"]
    await stable(rig, *members)
    back = answer_of(Client(rig, "c", instance="judge").join()).member_id
    record = rig.records()[-1]
    assert record is not None
    assert [member.member_id for member in record.members] == [members[0].member_id, back, members[2].member_id]
