"""StreamsGroupHeartbeat as the coordinator sees it: the request and what may be wrong with it in itself, the answer.

Errors are raised as KafkaErrors; times are in ms. An answer tells what each process of the group can be asked for, for
interactive queries (Kafka's `EndpointToPartitionsManager`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from coordinator.group.modern.group import JOINING, LEFT_FOR_A_WHILE, UNCHANGED
from coordinator.group.modern.heartbeat import check_text
from coordinator.group.streams.group import StreamsMember, Task, each_task
from coordinator.group.streams.topology import (
    ConfiguredTopology,
    InternalTopic,
    PartitionCount,
    Problem,
    check_topology,
)
from protocol.coordinator_records.streams_group_records import Endpoint, StreamsGroupTopologyValue, TaskIds, Tasks
from protocol.errors import InvalidRequest


class StreamsHeartbeat(NamedTuple):
    """A request; None, or UNCHANGED, for what the member reports as unchanged.

    `owned` is None unless the member reports its tasks in every role. `endpoint_epoch` is the last epoch of endpoints
    that it knows. `offsets` and `end_offsets` are those of the changelogs of tasks, summed up, each task once.
    `shuts_down`: all members shall end. `knows_tags`: the version has a status for tags that are missing.
    """

    group_id: str
    member_id: str
    member_epoch: int
    endpoint_epoch: int = -1
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = UNCHANGED
    topology: StreamsGroupTopologyValue | None = None
    owned: Tasks | None = None
    process_id: str | None = None
    user_endpoint: Endpoint | None = None
    client_tags: tuple[tuple[str, str], ...] | None = None
    offsets: Sequence[tuple[Task, int]] | None = None
    end_offsets: Sequence[tuple[Task, int]] | None = None
    shuts_down: bool = False
    client_id: str = ""
    client_host: str = ""
    knows_tags: bool = True


class EndpointPartitions(NamedTuple):
    """What a process can be asked for: the partitions of its active tasks, and of the others, by topic."""

    endpoint: Endpoint
    active: Mapping[str, Sequence[int]]
    standby: Mapping[str, Sequence[int]]


class StreamsHeartbeatAnswer(NamedTuple):
    """An answer. `assigned` is None if it is what the member knows, `endpoints` likewise.

    `to_create` are the internal topics that the broker has to make.
    """

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    task_offset_interval_ms: int = 0
    acceptable_recovery_lag: int = -1
    statuses: tuple[Problem, ...] = ()
    assigned: Tasks | None = None
    endpoint_epoch: int = 0
    endpoints: tuple[EndpointPartitions, ...] | None = None
    to_create: tuple[InternalTopic, ...] = ()


def check_request(request: StreamsHeartbeat) -> None:
    """Raises InvalidRequest, or what `check_topology` does, if the request is wrong in itself."""
    for text, name in (
        (request.member_id, "MemberId"),
        (request.group_id, "GroupId"),
        (request.instance_id, "InstanceId"),
        (request.rack_id, "RackId"),
    ):
        check_text(text, name)
    if request.member_epoch == JOINING:
        if request.rebalance_timeout_ms == UNCHANGED:
            raise InvalidRequest("RebalanceTimeoutMs must be provided in first request.")
        if request.owned is None or any(request.owned):
            raise InvalidRequest("ActiveTasks, StandbyTasks and WarmupTasks must be empty when (re-)joining.")
        if request.topology is None:
            raise InvalidRequest("Topology must be non-null when (re-)joining.")
        check_topology(request.topology)
        return
    if request.topology is not None:
        raise InvalidRequest("Topology can only be provided when (re-)joining.")
    if request.member_epoch == LEFT_FOR_A_WHILE and request.instance_id is None:
        raise InvalidRequest("InstanceId can't be null.")
    if request.member_epoch < LEFT_FOR_A_WHILE:
        raise InvalidRequest(f"MemberEpoch is {request.member_epoch}, but must be greater than or equal to -2.")


def endpoints_of(
    members: Iterable[StreamsMember], configured: ConfiguredTopology, partition_count: PartitionCount
) -> tuple[EndpointPartitions, ...]:
    """An entry for each member that named an endpoint."""
    return tuple(
        EndpointPartitions(
            member.user_endpoint,
            partitions_of([member.assigned.active], configured, partition_count),
            partitions_of([member.assigned.standby, member.assigned.warmup], configured, partition_count),
        )
        for member in members
        if member.user_endpoint is not None
    )


def partitions_of(
    roles: Iterable[TaskIds], configured: ConfiguredTopology, partition_count: PartitionCount
) -> dict[str, list[int]]:
    """The partitions that tasks read, by topic."""
    found: dict[str, set[int]] = {}
    for subtopology, index in (task for role in roles for task in each_task(role)):
        known = configured.subtopologies.get(subtopology)
        for topic in () if known is None else known.sources:
            if index < (partition_count(topic) or 0):
                found.setdefault(topic, set()).add(index)
    return {topic: sorted(indexes) for topic, indexes in sorted(found.items())}
