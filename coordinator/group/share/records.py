"""The records that change a share group, and what each does to it (Kafka's GroupCoordinatorRecordHelpers)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any
from uuid import UUID

from coordinator.group.share.group import FIRST_EPOCH, NO_STATE, ShareGroup, ShareMember
from coordinator.runtime.outcome import CoordinatorRecord
from protocol.coordinator_records.record_schema import GroupKey, MemberKey, Partitions, RecordSchema
from protocol.coordinator_records.share_records import (
    SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    SHARE_GROUP_MEMBER_METADATA,
    SHARE_GROUP_METADATA,
    SHARE_GROUP_STATE_PARTITION_METADATA,
    SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER,
    SHARE_GROUP_TARGET_ASSIGNMENT_METADATA,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMetadataValue,
)


def epoch(group_id: str, number: int, metadata_hash: int) -> CoordinatorRecord:
    value = ShareGroupMetadataValue(number, metadata_hash)
    return CoordinatorRecord(SHARE_GROUP_METADATA, GroupKey(group_id), value)


def member(group_id: str, changed: ShareMember) -> CoordinatorRecord:
    value = ShareGroupMemberMetadataValue(changed.rack_id, changed.client_id, changed.client_host, changed.topics)
    return CoordinatorRecord(SHARE_GROUP_MEMBER_METADATA, MemberKey(group_id, changed.member_id), value)


def current_assignment(group_id: str, changed: ShareMember) -> CoordinatorRecord:
    value = ShareGroupCurrentMemberAssignmentValue(changed.epoch, changed.previous_epoch, changed.assigned)
    return CoordinatorRecord(SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT, MemberKey(group_id, changed.member_id), value)


def target(group_id: str, member_id: str, partitions: Partitions) -> CoordinatorRecord:
    return CoordinatorRecord(SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER, MemberKey(group_id, member_id), partitions)


def target_epoch(group_id: str, number: int, assigned_ms: int) -> CoordinatorRecord:
    value = ShareGroupTargetAssignmentMetadataValue(number, assigned_ms)
    return CoordinatorRecord(SHARE_GROUP_TARGET_ASSIGNMENT_METADATA, GroupKey(group_id), value)


def state(group_id: str, value: ShareGroupStatePartitionMetadataValue) -> CoordinatorRecord:
    return CoordinatorRecord(SHARE_GROUP_STATE_PARTITION_METADATA, GroupKey(group_id), value)


def without_topics(
    value: ShareGroupStatePartitionMetadataValue, topic_ids: Collection[UUID]
) -> ShareGroupStatePartitionMetadataValue:
    """The same without these topics."""
    return ShareGroupStatePartitionMetadataValue(
        {key: topic for key, topic in value.initializing.items() if key not in topic_ids},
        {key: topic for key, topic in value.initialized.items() if key not in topic_ids},
        {key: name for key, name in value.deleting.items() if key not in topic_ids},
    )


def member_tombstones(group_id: str, member_id: str) -> Iterator[CoordinatorRecord]:
    key = MemberKey(group_id, member_id)
    yield CoordinatorRecord(SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT, key, None)
    yield CoordinatorRecord(SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER, key, None)
    yield CoordinatorRecord(SHARE_GROUP_MEMBER_METADATA, key, None)


def group_tombstones(group: ShareGroup) -> Iterator[CoordinatorRecord]:
    for member_id in group.members:
        yield from member_tombstones(group.group_id, member_id)
    key = GroupKey(group.group_id)
    yield CoordinatorRecord(SHARE_GROUP_TARGET_ASSIGNMENT_METADATA, key, None)
    yield CoordinatorRecord(SHARE_GROUP_STATE_PARTITION_METADATA, key, None)
    yield CoordinatorRecord(SHARE_GROUP_METADATA, key, None)


# -- replay


def _epoch(group: ShareGroup, _: Any, value: ShareGroupMetadataValue | None) -> None:
    if value is not None:
        group.epoch, group.metadata_hash = value


def _member(group: ShareGroup, key: MemberKey, value: ShareGroupMemberMetadataValue | None) -> None:
    if value is None:
        group.members.pop(key.member_id, None)
        return
    known = group.members.get(key.member_id, ShareMember(key.member_id))
    rack_id, client_id, client_host, topics = value
    group.members[key.member_id] = known._replace(
        rack_id=rack_id, client_id=client_id, client_host=client_host, topics=topics
    )


def _current_assignment(
    group: ShareGroup, key: MemberKey, value: ShareGroupCurrentMemberAssignmentValue | None
) -> None:
    known = group.members.get(key.member_id)
    if value is not None:
        known = known or ShareMember(key.member_id)
        now, previous, assigned = value
        group.members[key.member_id] = known._replace(epoch=now, previous_epoch=previous, assigned=assigned)
    elif known is not None:
        group.members[key.member_id] = known._replace(epoch=0, previous_epoch=-1, assigned={})


def _target(group: ShareGroup, key: MemberKey, value: Partitions | None) -> None:
    if value is None:
        group.target.pop(key.member_id, None)
    else:
        group.target[key.member_id] = value


def _target_epoch(group: ShareGroup, _: Any, value: ShareGroupTargetAssignmentMetadataValue | None) -> None:
    group.assignment_epoch, group.assigned_ms = (FIRST_EPOCH, 0) if value is None else value


def _state(group: ShareGroup, _: Any, value: ShareGroupStatePartitionMetadataValue | None) -> None:
    group.state = NO_STATE if value is None else value
    group.is_fresh = False


REPLAYS: Sequence[tuple[RecordSchema[Any, Any], Callable[[ShareGroup, Any, Any], None]]] = (
    (SHARE_GROUP_METADATA, _epoch),
    (SHARE_GROUP_MEMBER_METADATA, _member),
    (SHARE_GROUP_TARGET_ASSIGNMENT_METADATA, _target_epoch),
    (SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER, _target),
    (SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT, _current_assignment),
    (SHARE_GROUP_STATE_PARTITION_METADATA, _state),
)
"""Each type of record, and what it does to its group: `apply(group, key, value)`."""
