"""What each process of a streams group can be asked for, for interactive queries (`EndpointToPartitionsManager`)."""

from __future__ import annotations

from collections.abc import Iterable

from coordinator.group.streams.configured import ConfiguredTopology, PartitionCount
from coordinator.group.streams.member import StreamsMember
from coordinator.group.streams.messages import EndpointPartitions
from coordinator.group.streams.tasks import each_task
from protocol.coordinator_records.streams_group_records import TaskIds


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
