"""A name stands for one group: heartbeats of another protocol are refused, whether the group has members or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from coordinator.group.consumer.heartbeat import ConsumerHeartbeat, consumer_group_heartbeat
from coordinator.group.kinds import GroupType
from coordinator.group.modern.groups import ModernGroups
from coordinator.group.share.heartbeat import ShareHeartbeat, share_group_heartbeat
from coordinator.group.streams.group import NO_TASKS, StreamsHeartbeat
from coordinator.group.streams.heartbeat import streams_group_heartbeat
from coordinator.runtime.outcome import Outcome
from protocol.errors import GroupIdNotFound
from tests.unit.coordinator.asking import ask
from tests.unit.coordinator.group.rig import GROUP
from tests.unit.coordinator.group.streams.rig import StreamsRig, topology

MEMBER = "m"


def consumer(groups: ModernGroups, epoch: int) -> Outcome[Any]:
    topics = ("a",) if epoch == 0 else None
    owned: dict[Any, Any] | None = {} if epoch == 0 else None
    request = ConsumerHeartbeat(
        GROUP, MEMBER, epoch, None, None, 60_000, topics, None, None, owned, "client", "/host", names_itself=True
    )
    return consumer_group_heartbeat(groups, request)


def share(groups: ModernGroups, epoch: int) -> Outcome[Any]:
    return share_group_heartbeat(
        groups, ShareHeartbeat(GROUP, MEMBER, epoch, None, ("a",) if epoch == 0 else None, "client", "/host")
    )


def streams(groups: ModernGroups, epoch: int) -> Outcome[Any]:
    joins: dict[str, Any] = {
        "rebalance_timeout_ms": 60_000,
        "topology": topology("a"),
        "owned": NO_TASKS,
        "process_id": "p",
    }
    return streams_group_heartbeat(groups, StreamsHeartbeat(GROUP, MEMBER, epoch, **joins if epoch == 0 else {}))


HEARTBEATS = {GroupType.CONSUMER: consumer, GroupType.SHARE: share, GroupType.STREAMS: streams}


@pytest.mark.parametrize("is_empty", [False, True], ids=["with a member", "empty"])
@pytest.mark.parametrize("epoch", [0, 2, -1], ids=["joining", "staying", "leaving"])
@pytest.mark.parametrize("other", HEARTBEATS)
@pytest.mark.parametrize("kind", HEARTBEATS)
async def test_a_modern_group_is_of_one_kind(kind: GroupType, other: GroupType, epoch: int, is_empty: bool) -> None:
    rig = await StreamsRig.having({"a": 2})

    def beat(heartbeat: Callable[[ModernGroups, int], Outcome[Any]], epoch: int) -> BaseException | None:
        return ask(rig.runtime, lambda state: heartbeat(state.groups.modern, epoch)).exception()

    assert beat(HEARTBEATS[kind], 0) is None
    if is_empty:
        assert beat(HEARTBEATS[kind], -1) is None
    if other is not kind:
        refusal = beat(HEARTBEATS[other], epoch)
        assert isinstance(refusal, GroupIdNotFound)
        assert str(refusal) == f"Group {GROUP} is not a {other.value} group."
    for _ in range(2):
        (group,) = rig.shard.groups.all()
        assert (group.group_type, group.is_empty) == (kind, is_empty)
        await rig.restart()
