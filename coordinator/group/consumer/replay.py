"""What the records of `__consumer_offsets` do to a consumer group: the only way in which it changes.

Compaction may have removed steps between two records, so each is applied regardless of what came before it. A
tombstone of something unknown does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.member import ConsumerMember
from coordinator.group.consumer.regex import ResolvedRegex
from protocol.coordinator_records.consumer_group_records import (
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    CONSUMER_GROUP_MEMBER_METADATA,
    CONSUMER_GROUP_METADATA,
    CONSUMER_GROUP_PARTITION_METADATA,
    CONSUMER_GROUP_REGULAR_EXPRESSION,
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER,
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from protocol.coordinator_records.record_schema import MemberKey, RecordSchema

NO_TARGET_EPOCH = -1


def _epoch(group: ConsumerGroup, _: Any, value: ConsumerGroupMetadataValue | None) -> None:
    """Set the group epoch. A tombstone, the end of the group, goes to `GroupDirectory.replay_consumer_end`."""
    if value is not None:
        group.epoch = value.epoch
        group.metadata_hash = value.metadata_hash


def _subscription_metadata(group: ConsumerGroup, _: Any, value: ConsumerGroupPartitionMetadataValue | None) -> None:
    group.has_subscription_metadata = value is not None


def _member(group: ConsumerGroup, key: MemberKey, value: ConsumerGroupMemberMetadataValue | None) -> None:
    if value is None:
        group.remove_member(key.member_id)
    else:
        member = group.members.get(key.member_id) or ConsumerMember(key.member_id)
        group.put_member(member.with_metadata(value))


def _current_assignment(
    group: ConsumerGroup,
    key: MemberKey,
    value: ConsumerGroupCurrentMemberAssignmentValue | None,
) -> None:
    member = group.members.get(key.member_id)
    if value is not None:
        group.put_member((member or ConsumerMember(key.member_id)).with_assignment(value))
    elif member is not None:
        group.put_member(member.without_assignment())


def _target(
    group: ConsumerGroup,
    key: MemberKey,
    value: ConsumerGroupTargetAssignmentMemberValue | None,
) -> None:
    if value is None:
        group.remove_target(key.member_id)
    else:
        group.set_target(key.member_id, value.partitions)


def _target_epoch(group: ConsumerGroup, _: Any, value: ConsumerGroupTargetAssignmentMetadataValue | None) -> None:
    group.assignment_epoch, group.assigned_ms = (NO_TARGET_EPOCH, 0) if value is None else value


def _regex(
    group: ConsumerGroup, key: ConsumerGroupRegularExpressionKey, value: ConsumerGroupRegularExpressionValue | None
) -> None:
    resolved = None if value is None else ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
    group.set_resolved(key.regex, resolved)


REPLAYS: Sequence[tuple[RecordSchema[Any, Any], Callable[[ConsumerGroup, Any, Any], None]]] = (
    (CONSUMER_GROUP_METADATA, _epoch),
    (CONSUMER_GROUP_PARTITION_METADATA, _subscription_metadata),
    (CONSUMER_GROUP_MEMBER_METADATA, _member),
    (CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA, _target_epoch),
    (CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER, _target),
    (CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT, _current_assignment),
    (CONSUMER_GROUP_REGULAR_EXPRESSION, _regex),
)
"""Each type of record, and what it does to its group: `apply(group, key, value)`."""
