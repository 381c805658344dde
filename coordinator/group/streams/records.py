"""The records that change a streams group, and what each does to it (Kafka's `StreamsCoordinatorRecordHelpers`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from coordinator.group.streams.group import FIRST_EPOCH, StreamsGroup
from coordinator.group.streams.member import StreamsMember
from coordinator.runtime.outcome import CoordinatorRecord
from protocol.coordinator_records.record_schema import GroupKey, MemberKey, RecordSchema
from protocol.coordinator_records.streams_group_records import (
    STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    STREAMS_GROUP_MEMBER_METADATA,
    STREAMS_GROUP_METADATA,
    STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER,
    STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA,
    STREAMS_GROUP_TOPOLOGY,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyValue,
    Tasks,
)


def metadata(group_id: str, value: StreamsGroupMetadataValue) -> CoordinatorRecord:
    return CoordinatorRecord(STREAMS_GROUP_METADATA, GroupKey(group_id), value)


def topology(group_id: str, value: StreamsGroupTopologyValue) -> CoordinatorRecord:
    return CoordinatorRecord(STREAMS_GROUP_TOPOLOGY, GroupKey(group_id), value)


def member(group_id: str, changed: StreamsMember) -> CoordinatorRecord:
    key = MemberKey(group_id, changed.member_id)
    return CoordinatorRecord(STREAMS_GROUP_MEMBER_METADATA, key, changed.metadata_value())


def current_assignment(group_id: str, changed: StreamsMember) -> CoordinatorRecord:
    key = MemberKey(group_id, changed.member_id)
    return CoordinatorRecord(STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT, key, changed.assignment_value())


def target(group_id: str, member_id: str, tasks: Tasks) -> CoordinatorRecord:
    return CoordinatorRecord(STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER, MemberKey(group_id, member_id), tasks)


def target_epoch(group_id: str, number: int, assigned_ms: int) -> CoordinatorRecord:
    value = StreamsGroupTargetAssignmentMetadataValue(number, assigned_ms)
    return CoordinatorRecord(STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA, GroupKey(group_id), value)


def member_tombstones(group_id: str, member_id: str) -> Iterator[CoordinatorRecord]:
    key = MemberKey(group_id, member_id)
    yield CoordinatorRecord(STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT, key, None)
    yield CoordinatorRecord(STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER, key, None)
    yield CoordinatorRecord(STREAMS_GROUP_MEMBER_METADATA, key, None)


def group_tombstones(group: StreamsGroup) -> Iterator[CoordinatorRecord]:
    for member_id in group.members:
        yield from member_tombstones(group.group_id, member_id)
    key = GroupKey(group.group_id)
    yield CoordinatorRecord(STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA, key, None)
    yield CoordinatorRecord(STREAMS_GROUP_TOPOLOGY, key, None)
    yield CoordinatorRecord(STREAMS_GROUP_METADATA, key, None)


# -- replay


def _metadata(group: StreamsGroup, _: Any, value: StreamsGroupMetadataValue | None) -> None:
    if value is not None:
        group.epoch, group.metadata_hash = value.epoch, value.metadata_hash
        group.validated_topology_epoch = value.validated_topology_epoch
        group.assignment_configs = value.assignment_configs


def _topology(group: StreamsGroup, _: Any, value: StreamsGroupTopologyValue | None) -> None:
    group.topology = value
    group.configured = None


def _member(group: StreamsGroup, key: MemberKey, value: StreamsGroupMemberMetadataValue | None) -> None:
    if value is None:
        group.drop(key.member_id)
    else:
        group.put(group.members.get(key.member_id, StreamsMember(key.member_id)).with_metadata(value))


def _current_assignment(
    group: StreamsGroup, key: MemberKey, value: StreamsGroupCurrentMemberAssignmentValue | None
) -> None:
    known = group.members.get(key.member_id)
    if value is not None:
        group.put((known or StreamsMember(key.member_id)).with_assignment(value))
    elif known is not None:
        group.put(StreamsMember(key.member_id).with_metadata(known.metadata_value()))


def _target(group: StreamsGroup, key: MemberKey, value: Tasks | None) -> None:
    if value is None:
        group.target.pop(key.member_id, None)
    else:
        group.target[key.member_id] = value


def _target_epoch(group: StreamsGroup, _: Any, value: StreamsGroupTargetAssignmentMetadataValue | None) -> None:
    group.assignment_epoch, group.assigned_ms = (FIRST_EPOCH, 0) if value is None else value


REPLAYS: Sequence[tuple[RecordSchema[Any, Any], Callable[[StreamsGroup, Any, Any], None]]] = (
    (STREAMS_GROUP_METADATA, _metadata),
    (STREAMS_GROUP_MEMBER_METADATA, _member),
    (STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA, _target_epoch),
    (STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER, _target),
    (STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT, _current_assignment),
    (STREAMS_GROUP_TOPOLOGY, _topology),
)
"""Each type of record, and what it does to its group: `apply(group, key, value)`."""
