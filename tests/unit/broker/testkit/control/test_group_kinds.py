"""Configurations of groups and tasks of streams groups, through the control interface."""

from __future__ import annotations

import pytest
from kio.schema.streams_group_heartbeat.v0.request import TaskOffset

from broker.testkit.control.endpoint import ControlError
from tests.unit.broker.members import CONFIG as GROUPS_CONFIG
from tests.unit.broker.members import ClassicMember
from tests.unit.broker.rig import Rig
from tests.unit.broker.streams_members import CONFIG, GROUP, Member
from tests.unit.broker.testkit.control.asking import control

BEGINS = "share.auto.offset.reset"
LIMIT = "share.delivery.count.limit"


async def test_configurations_are_set_and_removed_of_a_group_that_need_not_exist() -> None:
    async with Rig(config=CONFIG) as rig:
        path = "/groups/g/configs"
        assert await control(rig, "GET", path) == {"group": "g", "configs": {}}
        told = await control(rig, "POST", path, configs={BEGINS: "earliest", LIMIT: 3})
        assert told == await control(rig, "GET", path) == {"group": "g", "configs": {BEGINS: "earliest", LIMIT: "3"}}
        assert (await control(rig, "POST", path, configs={LIMIT: None}))["configs"] == {BEGINS: "earliest"}


@pytest.mark.parametrize(
    ("configs", "words"),
    [
        ({"share.auto.ofset.reset": "earliest"}, "did you mean share.auto.offset.reset?"),
        ({BEGINS: "soon"}, "must be either 'earliest', 'latest'"),
        ({BEGINS: ["earliest"]}, "expected a text"),
    ],
)
async def test_what_kafka_refuses_is_refused_by_name(configs: dict[str, object], words: str) -> None:
    async with Rig(config=CONFIG) as rig:
        with pytest.raises(ControlError) as caught:
            await control(rig, "POST", "/groups/g/configs", configs=configs)
        assert caught.value.parameter == "configs"
        assert words in str(caught.value)
        assert (await control(rig, "GET", "/groups/g/configs"))["configs"] == {}


async def test_a_reset_removes_the_configurations_that_came_after_the_mark() -> None:
    async with Rig(config=CONFIG) as rig:
        await control(rig, "POST", "/groups/old/configs", configs={BEGINS: "earliest"})
        mark = (await control(rig, "GET", "/mark"))["mark"]
        assert mark["group_configs"] == ["old"]
        await control(rig, "POST", "/groups/new/configs", configs={BEGINS: "earliest", LIMIT: 2})
        await control(rig, "POST", "/reset", mark=mark)
        assert (await control(rig, "GET", "/groups/new/configs"))["configs"] == {}
        assert (await control(rig, "GET", "/groups/old/configs"))["configs"] == {BEGINS: "earliest"}
        await control(rig, "POST", "/reset")
        assert (await control(rig, "GET", "/groups/old/configs"))["configs"] == {}


async def test_tasks_are_told_with_who_has_them_and_how_far_their_state_is() -> None:
    async with Rig(config=CONFIG) as rig:
        await rig.create("t", 2)
        await rig.node.coordinators.groups.ensure_topic()
        member = Member(rig)
        for _ in range(3):
            await member.beat()
        tasks = (await control(rig, "GET", f"/groups/{GROUP}/tasks"))["tasks"]
        unknown = {"role": "active", "member": "m", "offset": None, "end": None}
        assert tasks == [{"task": name, **unknown} for name in ("0_0", "0_1", "1_0", "1_1")]
        place = TaskOffset(subtopology_id="1", partition=1, offset=5)
        end = TaskOffset(subtopology_id="1", partition=1, offset=9)
        await member.beat(task_offsets=(place,), task_end_offsets=(end,))
        answer = await control(rig, "GET", f"/groups/{GROUP}/tasks")
        assert answer["tasks"] == [*tasks[:3], {**tasks[3], "offset": 5, "end": 9}]
        assert (answer["problem"], answer["shutdown_by"]) == (None, None)


async def test_why_a_streams_group_has_no_tasks_is_told() -> None:
    async with Rig(config=CONFIG) as rig:
        await rig.node.coordinators.groups.ensure_topic()
        await Member(rig).beat()
        answer = await control(rig, "GET", f"/groups/{GROUP}/tasks")
        assert answer["problem"] == "MISSING_SOURCE_TOPICS: Source topics t are missing."
        assert answer["tasks"] == []
        waited = await control(rig, "POST", f"/groups/{GROUP}/wait", state="NotReady", timeout=0)
        assert waited["state"] == "NotReady"


async def test_other_groups_have_no_tasks() -> None:
    async with Rig(config=GROUPS_CONFIG) as rig:
        await rig.create("t", 1)
        await ClassicMember(rig, "g", "t").enter({"t": [0]})
        with pytest.raises(ControlError, match="a classic group has no tasks"):
            await control(rig, "GET", "/groups/g/tasks")
