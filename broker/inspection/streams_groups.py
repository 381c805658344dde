"""What a streams group has besides what all groups have: its topology, what its members are told, and its tasks."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from coordinator.group.group_coordinator_shard import GroupCoordinatorShard
from coordinator.group.modern.groups import ModernGroups
from coordinator.group.streams.group import StreamsGroup, each_task
from coordinator.group.streams.heartbeat import is_delayed
from coordinator.group.streams.topology import Problem

if TYPE_CHECKING:
    from broker.coordinators.group_coordinator import GroupCoordinator


@dataclass(frozen=True, slots=True)
class TaskView:
    """A task of a member that has told how far its state is: to `offset` of `end` in its changelogs.

    `role` is active, standby or warm-up.
    """

    name: str
    role: str
    member_id: str
    offset: int
    end: int


@dataclass(frozen=True, slots=True)
class StreamsGroupView:
    """`problem` is why no tasks are assigned. Of members by id: `stale`, the epoch of a topology older than the
    group's; `untagged`, the client tags that they lack.
    """

    topology_epoch: int
    problem: Problem | None
    shutdown_by: str | None
    is_delayed: bool
    stale: Mapping[str, int]
    untagged: Mapping[str, Sequence[str]]
    tasks: Sequence[TaskView]
    acceptable_lag: int


async def read_streams_group(coordinator: GroupCoordinator, group_id: str) -> StreamsGroupView | None:
    """The group; None if it is no streams group any more. Raises CoordinatorLoadInProgress."""
    reading: Future[StreamsGroupView | None] = coordinator.read(group_id, partial(_view, group_id=group_id))
    return await reading


def _view(state: GroupCoordinatorShard, group_id: str) -> StreamsGroupView | None:
    groups = state.groups.modern
    group = groups.find(StreamsGroup, group_id)
    if group is None:
        return None
    epoch = -1 if group.topology is None else group.topology.epoch
    return StreamsGroupView(
        epoch,
        None if group.configured is None else group.configured.problem,
        group.shutdown_by,
        is_delayed(groups, group_id),
        {key: one.topology_epoch for key, one in group.members.items() if one.topology_epoch < epoch},
        _untagged(groups, group),
        [*_tasks(group)],
        groups.services.streams.acceptable_recovery_lag_of(group_id),
    )


def _untagged(groups: ModernGroups, group: StreamsGroup) -> dict[str, Sequence[str]]:
    tags = groups.services.streams.tags_of(group.group_id)
    lacking = {
        key: [tag for tag in tags if tag not in dict(member.client_tags)] for key, member in group.members.items()
    }
    return {key: missing for key, missing in lacking.items() if missing}


def _tasks(group: StreamsGroup) -> Iterator[TaskView]:
    for member in group.members.values():
        offsets = group.offsets.get(member.member_id, {})
        ends = group.end_offsets.get(member.member_id, {})
        for role, tasks in zip(("active", "standby", "warm-up"), member.assigned, strict=True):
            for task in each_task(tasks):
                if task in offsets and task in ends:
                    name = f"{task[0]}_{task[1]}"
                    yield TaskView(name, role, member.member_id, offsets[task], ends[task])
