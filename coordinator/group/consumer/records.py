"""The records that change a consumer group (Kafka's GroupCoordinatorRecordHelpers)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from coordinator.group.consumer.assignment import Partitions
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.member import ConsumerMember
from coordinator.group.consumer.regex import ResolvedRegex
from coordinator.runtime.outcome import CoordinatorRecord
from protocol.coordinator_records.consumer_group_records import (
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    CONSUMER_GROUP_MEMBER_METADATA,
    CONSUMER_GROUP_METADATA,
    CONSUMER_GROUP_PARTITION_METADATA,
    CONSUMER_GROUP_REGULAR_EXPRESSION,
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER,
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from protocol.coordinator_records.record_schema import GroupKey, MemberKey


def epoch(group_id: str, number: int, metadata_hash: int) -> CoordinatorRecord:
    value = ConsumerGroupMetadataValue(number, metadata_hash)
    return CoordinatorRecord(CONSUMER_GROUP_METADATA, GroupKey(group_id), value)


def member(group_id: str, changed: ConsumerMember) -> CoordinatorRecord:
    key = MemberKey(group_id, changed.member_id)
    return CoordinatorRecord(CONSUMER_GROUP_MEMBER_METADATA, key, changed.metadata_value())


def current_assignment(group_id: str, changed: ConsumerMember) -> CoordinatorRecord:
    key = MemberKey(group_id, changed.member_id)
    return CoordinatorRecord(CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT, key, changed.assignment_value())


def target(group_id: str, member_id: str, partitions: Partitions) -> CoordinatorRecord:
    key = MemberKey(group_id, member_id)
    value = ConsumerGroupTargetAssignmentMemberValue(partitions)
    return CoordinatorRecord(CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER, key, value)


def target_epoch(group_id: str, number: int, assigned_ms: int) -> CoordinatorRecord:
    key = GroupKey(group_id)
    value = ConsumerGroupTargetAssignmentMetadataValue(number, assigned_ms)
    return CoordinatorRecord(CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA, key, value)


def regex(group_id: str, expression: str, resolved: ResolvedRegex | None) -> CoordinatorRecord:
    """The topics that an expression matches; a tombstone if `resolved` is None."""
    key = ConsumerGroupRegularExpressionKey(group_id, expression)
    value = None
    if resolved is not None:
        value = ConsumerGroupRegularExpressionValue(
            tuple(sorted(resolved.topics)), resolved.version, resolved.timestamp_ms
        )
    return CoordinatorRecord(CONSUMER_GROUP_REGULAR_EXPRESSION, key, value)


def subscription_metadata_tombstone(group_id: str) -> CoordinatorRecord:
    key = GroupKey(group_id)
    return CoordinatorRecord(CONSUMER_GROUP_PARTITION_METADATA, key, None)


def member_tombstones(group_id: str, member_id: str) -> Iterator[CoordinatorRecord]:
    """The tombstones of a member, in the order that Kafka's replay requires."""
    yield _current_assignment_tombstone(group_id, member_id)
    yield _target_tombstone(group_id, member_id)
    yield _member_tombstone(group_id, member_id)


def group_tombstones(group: ConsumerGroup, replaced: Mapping[str, str] | None = None) -> Iterator[CoordinatorRecord]:
    """The tombstones that delete a group. `replaced`: new ids of members that earlier records have replaced."""
    group_id = group.group_id
    member_ids = [(replaced or {}).get(member_id, member_id) for member_id in group.members]
    for member_id in member_ids:
        yield _current_assignment_tombstone(group_id, member_id)
    for member_id in member_ids:
        yield _target_tombstone(group_id, member_id)
    yield CoordinatorRecord(CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA, GroupKey(group_id), None)
    for member_id in member_ids:
        yield _member_tombstone(group_id, member_id)
    for expression in group.resolved:
        yield regex(group_id, expression, None)
    yield subscription_metadata_tombstone(group_id)
    yield CoordinatorRecord(CONSUMER_GROUP_METADATA, GroupKey(group_id), None)


def group_creation(group: ConsumerGroup) -> Iterator[CoordinatorRecord]:
    """The records that create a group as it is, after its conversion from a classic one."""
    group_id = group.group_id
    members = list(group.members.values())
    for known in members:
        yield member(group_id, known)
    yield epoch(group_id, group.epoch, group.metadata_hash)
    for known in members:
        yield target(group_id, known.member_id, group.target[known.member_id])
    yield target_epoch(group_id, group.assignment_epoch, group.assigned_ms)
    for known in members:
        yield current_assignment(group_id, known)


def _current_assignment_tombstone(group_id: str, member_id: str) -> CoordinatorRecord:
    key = MemberKey(group_id, member_id)
    return CoordinatorRecord(CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT, key, None)


def _target_tombstone(group_id: str, member_id: str) -> CoordinatorRecord:
    key = MemberKey(group_id, member_id)
    return CoordinatorRecord(CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER, key, None)


def _member_tombstone(group_id: str, member_id: str) -> CoordinatorRecord:
    key = MemberKey(group_id, member_id)
    return CoordinatorRecord(CONSUMER_GROUP_MEMBER_METADATA, key, None)
