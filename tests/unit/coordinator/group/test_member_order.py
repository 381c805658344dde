"""A group's members have the order of Kafka's hash map of them. Apache Kafka 4.1 gave these ids and orders."""

from __future__ import annotations

from coordinator.group.classic.messages import JoinAnswer
from tests.unit.coordinator.group.rig import Client, Rig
from tests.unit.coordinator.group.steps import assign_all, stable, told

GIVEN = [
    "ad3a5773-b1c3-4f36-8ba9-3cd5634f63b4",
    "185b190e-75f8-4514-ada2-6217a4b324d6",
    "92bbfa97-cdcb-4bcc-bbda-9b97c0af6bab",
    "87ae3978-4e6d-41cb-a373-0d89ebfd2236",
    "b9c55fc3-4db3-4b3e-ae79-b13a7e6046c8",
    "dcfee612-fd62-4a1a-a30d-38d443020a54",
    "4c08c4a8-4b30-471a-a29d-275aeec96f11",
    "cb210f95-6e8f-4445-8f14-d1b7b0447430",
    "2469845c-484d-441a-ad06-e034b2708a57",
    "b0966ebf-e73f-4579-8b9d-b16273601cdb",
    "89a0ba22-b1d9-46ec-8c2a-579259118a2f",
    "9ae009f2-4eec-4259-8a16-62b01c1dede1",
    "33954bb2-1d23-413b-955e-a1aa0751847c",
    "060b9215-96fa-4983-b070-f29833a7488c",
]
ORDER = [5, 1, 10, 12, 11, 8, 6, 2, 7, 4, 3, 9, 0, 13]
"""Of all fourteen, by their places in `GIVEN`."""
LEFT = [10, 12, 11, 8, 6, 7, 9, 13]
"""Of those that are left when the first six are gone; a map that never held more has another order."""
LOADED = [9, 10, 12, 11, 8, 6, 7, 13]
"""Of those once the coordinator has started anew."""


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


async def test_a_start_makes_another_map_as_large_as_the_last_record_needs() -> None:
    rig, members = await fourteen()
    for member in members[:6]:
        told(member.leave())
    told_to_leader = await rejoined(rig, members[6:])
    leader = next(member for member in members if member.member_id == told_to_leader.leader)
    told(leader.sync(assign_all(members[6:])))
    await rig.restart()
    assert places([member.member_id for member in rig.group.describe().members]) == LOADED


async def test_a_static_member_that_comes_back_to_a_stable_group_has_its_place_by_its_new_id() -> None:
    rig = await Rig.started()
    rig.give_member_ids([*GIVEN[:3], GIVEN[9]])
    members = [Client(rig, "judge", instance="judge" if place == 2 else None) for place in range(3)]
    await stable(rig, *members)
    told(Client(rig, "judge", instance="judge").join())
    record = rig.records()[-1]
    assert record is not None
    assert places([member.member_id for member in record.members]) == [9, 1, 0]
