"""The records of `__consumer_offsets` that streams groups write (KIP-1071). Each type has one version."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, NamedTuple

from ..declared import Int8, Int16, Int32, Int64, Placed, Stored, String, Uint16, plain
from .record_schema import GroupKey, Int32Set, MemberKey, Pairs, RecordSchema, _Pair


@plain
class _Subtasks(NamedTuple):
    subtopology: String
    partitions: Int32Set


TaskIds = Annotated[
    Mapping[str, frozenset[int]], Stored(tuple[_Subtasks, ...], dict, lambda tasks: sorted(tasks.items()))
]
"""Tasks: the partitions by subtopology."""

_Configs = Annotated[
    tuple[tuple[str, str], ...],
    Stored(tuple[_Pair, ...] | None, lambda stored: stored or (), lambda configs: configs or None),
]


class StreamsGroupMetadataValue(NamedTuple):
    """The group's epoch, and what it was computed from.

    `validated_topology_epoch` is that of the topology whose topics are all there, -1 if they are not.
    `assignment_configs` are the settings of the assignor. The last two are about descriptions of the topology
    (KIP-1331), which this broker does not keep: -1.
    """

    epoch: Int32
    metadata_hash: Int64
    validated_topology_epoch: Annotated[Int32, Placed(tag=0)] = -1
    assignment_configs: Annotated[_Configs, Placed(tag=1)] = ()
    stored_description_topology_epoch: Annotated[Int32, Placed(tag=2)] = -1
    failed_description_topology_epoch: Annotated[Int32, Placed(tag=3)] = -1


class Endpoint(NamedTuple):
    """Where a process answers queries from outside."""

    host: String
    port: Uint16


class StreamsGroupMemberMetadataValue(NamedTuple):
    """A member's description of itself; the timeout in ms, the tags in the order of their keys."""

    instance_id: String | None
    rack_id: String | None
    client_id: String
    client_host: String
    rebalance_timeout_ms: Int32
    topology_epoch: Int32
    process_id: String
    user_endpoint: Endpoint | None
    client_tags: Pairs


class StreamsGroupTargetAssignmentMetadataValue(NamedTuple):
    """The epoch that the target was made for, and when; 0 if that is not known."""

    assignment_epoch: Int32
    assigned_ms: Annotated[Int64, Placed(tag=0, absent=0)]


class Tasks(NamedTuple):
    """The tasks of a member in their three roles."""

    active: TaskIds
    standby: TaskIds
    warmup: TaskIds


class StreamsGroupCurrentMemberAssignmentValue(NamedTuple):
    """The tasks that a member has now, and those that it must give up.

    `epochs` are, by active task, the epochs at which the member got it: since then it may commit its offsets.
    """

    member_epoch: int
    previous_member_epoch: int
    state: int
    assigned: Tasks
    pending_revocation: Tasks
    epochs: Mapping[tuple[str, int], int]


class TopicInfo(NamedTuple):
    """An internal topic that a topology needs; 0 partitions or replicas if the broker decides."""

    name: String
    partitions: Int32
    replication_factor: Int16
    configs: Pairs


class CopartitionGroup(NamedTuple):
    """Topics that must have the same number of partitions, as indexes into the lists of their subtopology."""

    source_topics: tuple[Int16, ...]
    source_topic_regexes: tuple[Int16, ...]
    repartition_source_topics: tuple[Int16, ...]


class Subtopology(NamedTuple):
    """A part of a topology that is processed in one task; topics are names."""

    subtopology_id: String
    source_topics: tuple[String, ...] = ()
    source_topic_regexes: tuple[String, ...] = ()
    changelogs: tuple[TopicInfo, ...] = ()
    repartition_sinks: tuple[String, ...] = ()
    repartition_sources: tuple[TopicInfo, ...] = ()
    copartition_groups: tuple[CopartitionGroup, ...] = ()


class StreamsGroupTopologyValue(NamedTuple):
    """The topology that the members of the group process."""

    epoch: Int32
    subtopologies: tuple[Subtopology, ...]


class _ActiveTasks(NamedTuple):
    """Active tasks of one subtopology, and the epoch of each if all are known."""

    subtopology: String
    partitions: tuple[Int32, ...]
    epochs: Annotated[tuple[Int32, ...] | None, Placed(tag=0)] = None


class _CurrentAssignment(NamedTuple):
    """A current assignment as it is on the wire."""

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    active: tuple[_ActiveTasks, ...]
    standby: TaskIds
    warmup: TaskIds
    active_to_revoke: tuple[_ActiveTasks, ...]
    standby_to_revoke: TaskIds
    warmup_to_revoke: TaskIds


def _load_assignment(stored: _CurrentAssignment) -> StreamsGroupCurrentMemberAssignmentValue:
    epochs = {
        (tasks.subtopology, index): epoch
        for tasks in (*stored.active, *stored.active_to_revoke)
        for index, epoch in zip(tasks.partitions, tasks.epochs or (), strict=False)
    }
    assigned = Tasks(_load_active(stored.active), stored.standby, stored.warmup)
    pending = Tasks(_load_active(stored.active_to_revoke), stored.standby_to_revoke, stored.warmup_to_revoke)
    return StreamsGroupCurrentMemberAssignmentValue(*stored[:3], assigned, pending, epochs)


def _load_active(stored: Iterable[_ActiveTasks]) -> TaskIds:
    return {tasks.subtopology: frozenset(tasks.partitions) for tasks in stored}


def _dump_assignment(value: StreamsGroupCurrentMemberAssignmentValue) -> _CurrentAssignment:
    def active(tasks: TaskIds) -> Iterator[_ActiveTasks]:
        for subtopology, partitions in sorted(tasks.items()):
            indexes = tuple(sorted(partitions))
            known = [value.epochs.get((subtopology, index)) for index in indexes]
            epochs = tuple(epoch for epoch in known if epoch is not None)
            yield _ActiveTasks(subtopology, indexes, epochs if len(epochs) == len(indexes) else None)

    assigned, pending = value.assigned, value.pending_revocation
    return _CurrentAssignment(
        *value[:3], tuple(active(assigned.active)), *assigned[1:], tuple(active(pending.active)), *pending[1:]
    )


STREAMS_GROUP_METADATA = RecordSchema("StreamsGroupMetadata", (17,), GroupKey, StreamsGroupMetadataValue)
STREAMS_GROUP_MEMBER_METADATA = RecordSchema(
    "StreamsGroupMemberMetadata", (19,), MemberKey, StreamsGroupMemberMetadataValue
)
STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA = RecordSchema(
    "StreamsGroupTargetAssignmentMetadata", (20,), GroupKey, StreamsGroupTargetAssignmentMetadataValue
)
STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER = RecordSchema("StreamsGroupTargetAssignmentMember", (21,), MemberKey, Tasks)
STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT: RecordSchema[MemberKey, StreamsGroupCurrentMemberAssignmentValue] = (
    RecordSchema(
        "StreamsGroupCurrentMemberAssignment",
        (22,),
        MemberKey,
        Stored(_CurrentAssignment, _load_assignment, _dump_assignment),
    )
)
STREAMS_GROUP_TOPOLOGY = RecordSchema("StreamsGroupTopology", (23,), GroupKey, StreamsGroupTopologyValue)
STREAMS_GROUP_SCHEMAS: tuple[RecordSchema[Any, Any], ...] = (
    STREAMS_GROUP_METADATA,
    STREAMS_GROUP_MEMBER_METADATA,
    STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA,
    STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER,
    STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    STREAMS_GROUP_TOPOLOGY,
)
