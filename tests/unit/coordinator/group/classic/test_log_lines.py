"""Every rebalance leaves a line with its reason in the log, of the kinds that Kafka knows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from coordinator.group.classic.members import MemberProtocol
from tests.unit.coordinator.group.rig import Client, Rig, subscription
from tests.unit.coordinator.group.steps import answer_of, assign_all, completing, stable


@pytest.fixture
def lines() -> Iterator[list[Any]]:
    with capture_logs() as captured:
        yield captured


def reasons(lines: list[Any]) -> list[str]:
    return [line["reason"] for line in lines if line["event"] == "preparing to rebalance group"]


async def test_a_new_member(lines: list[Any]) -> None:
    rig = await Rig.started()
    Client(rig, "c1").join("the first poll")
    await rig.pass_ms(1)
    assert reasons(lines) == [
        "adding new member c1-1 with group instance id None; client reason: the first poll",
    ]
    (line,) = (line for line in lines if line["event"] == "preparing to rebalance group")
    assert (line["group"], line["old_state"], line["old_generation"]) == ("readers", "Empty", 0)
    (line,) = (line for line in lines if line["event"] == "stabilized group")
    assert (line["generation"], line["members"], line["protocol"]) == (1, 1, "range")


async def test_a_member_that_leaves(lines: list[Any]) -> None:
    rig = await Rig.started()
    first, second = Client(rig, "c1"), Client(rig, "c2")
    await stable(rig, first, second)
    answer_of(second.leave())
    assert reasons(lines)[-1] == "explicit `LeaveGroup` request for (c2-2) members"


async def test_a_member_that_is_silent(lines: list[Any]) -> None:
    rig = await Rig.started()
    first, second = Client(rig, "c1", session_ms=60_000), Client(rig, "c2")
    await stable(rig, first, second)
    await rig.pass_ms(10_100)
    assert reasons(lines)[-1] == "removing member c2-2 on heartbeat expiration"


async def test_a_leader_that_joins_again(lines: list[Any]) -> None:
    rig = await Rig.started()
    leader = Client(rig, "c1")
    await stable(rig, leader)
    leader.join("cached metadata has changed")
    assert reasons(lines)[-1] == (
        "leader c1-1 re-joining group during Stable; client reason: cached metadata has changed"
    )


async def test_a_member_with_other_metadata(lines: list[Any]) -> None:
    rig = await Rig.started()
    first, second = Client(rig, "c1"), Client(rig, "c2")
    await completing(rig, first, second)
    second.protocols = (MemberProtocol("range", subscription("another")),)
    second.join()
    assert reasons(lines)[-1] == (
        "updating metadata for member c2-2 during CompletingRebalance; client reason: not provided"
    )


async def test_a_static_member_with_another_protocol(lines: list[Any]) -> None:
    rig = await Rig.started()
    first = Client(rig, "c1", protocols=("range", "sticky"))
    await stable(rig, first, Client(rig, "c2", instance="i2", protocols=("range", "sticky")))
    Client(rig, "c2", instance="i2", protocols=("sticky",)).join()
    assert reasons(lines)[-1] == (
        "group's selected protocol will change because static member i2-3 with instance id i2 joined with change of "
        "protocol; client reason: not provided"
    )


async def test_members_that_do_not_sync(lines: list[Any]) -> None:
    rig = await Rig.started()
    first, second = (Client(rig, f"c{i}", rebalance_ms=5_000) for i in (1, 2))
    await completing(rig, first, second)
    first.sync(assign_all((first, second)))
    await rig.pass_ms(5_100)
    assert reasons(lines)[-1] == "removing ['c2-2'] on pending sync request expiration"
