"""Each rule about a streams group, on a whole node in virtual time."""

from __future__ import annotations

import pytest
from kio.schema.streams_group_heartbeat.v0.request import TaskOffset

from tests.unit.broker.rig import Rig
from tests.unit.broker.streams_members import CONFIG, GROUP, Member
from tests.unit.broker.testkit.explain.findings import found

pytestmark = pytest.mark.asyncio


async def ready(rig: Rig) -> Member:
    """A member that has its tasks."""
    await rig.create("t", 2)
    await rig.node.coordinators.groups.ensure_topic()
    member = Member(rig)
    for _ in range(3):
        await member.beat()
    assert member.tasks
    return member


async def test_a_missing_source_topic_is_named_with_the_status() -> None:
    async with Rig(config=CONFIG) as rig:
        await rig.node.coordinators.groups.ensure_topic()
        await Member(rig).beat()
        finding = (await found(rig, group=GROUP))["topology_is_not_ready"]
        assert finding["severity"] == "problem"
        assert "MISSING_SOURCE_TOPICS (status 1): Source topics t are missing." in finding["text"]


async def test_a_group_with_tasks_has_no_finding_of_streams() -> None:
    async with Rig(config=CONFIG) as rig:
        await ready(rig)
        rules = await found(rig, group=GROUP)
        assert not {"topology_is_not_ready", "assignment_is_delayed", "subscriptions_are_unknown"} & rules.keys()


async def test_an_initial_delay_is_named() -> None:
    async with Rig(config={**CONFIG, "group.streams.initial.rebalance.delay.ms": "3000"}) as rig:
        await rig.create("t", 2)
        await rig.node.coordinators.groups.ensure_topic()
        await Member(rig).beat()
        assert "ASSIGNMENT_DELAYED (status 5)" in (await found(rig, group=GROUP))["assignment_is_delayed"]["text"]


async def test_a_member_that_asks_all_to_end_is_named() -> None:
    async with Rig(config=CONFIG) as rig:
        member = await ready(rig)
        await member.beat(shutdown_application=True)
        assert (
            "member m of group app has asked all to end"
            in (await found(rig, group=GROUP))["application_shuts_down"]["text"]
        )


async def test_how_far_a_state_is_behind_its_changelogs() -> None:
    async with Rig(config=CONFIG) as rig:
        member = await ready(rig)
        reached, end = (TaskOffset(subtopology_id="1", partition=0, offset=offset) for offset in (3, 10))
        await member.beat(task_offsets=(reached,), task_end_offsets=(end,))
        text = (await found(rig, group=GROUP))["state_is_behind"]["text"]
        assert (
            text == "active task 1_0 of member m restores its state: it is 7 records behind the end of its changelogs"
        )
