"""A group's members have the order of Kafka's hash map of them. Apache Kafka 4.1 gave these ids and orders."""

from __future__ import annotations

from coordinator.group.classic.messages import JoinAnswer
from tests.unit.coordinator.group.rig import Client, Rig
from tests.unit.coordinator.group.steps import stable, told

GIVEN = [
    "a9f22f05-3ae2-4cd5-9f59-a849907d4eb7",
    "b186484f-52ae-4bff-98b1-778955548bca",
    "a9cb85fd-fe85-48bc-a941-0dfb46e698a5",
    "73c44cbe-07ca-4c89-bb5a-c0ec51bf5781",
    "d3cfbd88-913c-4ae7-8fd1-74d5c100c794",
    "84eb3999-33a4-44a5-bee3-5d1bd1585b60",
    "2778d9f1-1141-45e6-a812-c8ffec52c67c",
    "6a4eb816-1431-4cde-a825-241d8f8fb7a7",
    "4f4f85ff-aef7-4c39-ab6f-2c5b07389d9d",
    "463d0951-d209-40b4-a704-c66912a698f6",
    "34f83a0f-b5a5-459a-9db0-d1371a102d37",
    "27f3d2c7-631c-4b1c-8119-deca7b99b666",
    "3f737785-d89a-47be-9c75-976d87c3db28",
    "a53b5f55-4213-4d73-99b6-2bde02c6a968",
]
ORDER = [9, 10, 1, 6, 2, 5, 13, 7, 11, 8, 12, 3, 4, 0]
"""Of all fourteen, by their places in `GIVEN`."""
LEFT = [9, 10, 6, 13, 7, 11, 8, 12]
"""Of those that are left when the first six are gone; a map that had grown for no more than eight has another order."""


async def fourteen() -> tuple[Rig, list[Client]]:
    rig = await Rig.started()
    rig.give_member_ids(GIVEN)
    members = [Client(rig, "judge") for _ in GIVEN]
    await stable(rig, *members)
    return rig, members


async def rejoined(rig: Rig, members: list[Client]) -> JoinAnswer:
    """What the leader of the next generation is told."""
    joins = [member.join() for member in members]
    await rig.pass_ms(5)
    return next(told(join) for join in joins if told(join).members)


def places(ids: list[str]) -> list[int]:
    return [GIVEN.index(member_id.removeprefix("judge-")) for member_id in ids]


async def test_a_leader_is_told_the_members_in_the_order_of_the_hash_map() -> None:
    rig, members = await fourteen()
    told_to_leader = await rejoined(rig, members)
    assert told_to_leader.leader == members[0].member_id
    assert places([member.member_id for member in told_to_leader.members]) == ORDER


async def test_a_description_and_a_record_have_that_order() -> None:
    rig, _ = await fourteen()
    record = rig.records()[-1]
    assert record is not None
    assert places([member.member_id for member in record.members]) == ORDER
    assert places([member.member_id for member in rig.group.describe().members]) == ORDER


async def test_the_first_in_that_order_leads_when_the_leader_leaves_and_the_map_does_not_shrink() -> None:
    rig, members = await fourteen()
    for member in members[:6]:
        told(member.leave())
    told_to_leader = await rejoined(rig, members[6:])
    assert places([told_to_leader.leader]) == LEFT[:1]
    assert places([member.member_id for member in told_to_leader.members]) == LEFT


async def test_a_static_member_that_comes_back_to_a_stable_group_has_its_place_by_its_new_id() -> None:
    rig = await Rig.started()
    rig.give_member_ids([*GIVEN[:3], GIVEN[9]])
    members = [Client(rig, "judge", instance="judge" if place == 2 else None) for place in range(3)]
    await stable(rig, *members)
    told(Client(rig, "judge", instance="judge").join())
    record = rig.records()[-1]
    assert record is not None
    assert places([member.member_id for member in record.members]) == [9, 1, 0]
