"""When a classic group's offsets may be committed, deleted or expired, and when the group may be deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator.group.classic.states import GroupState
from protocol.errors import (
    CoordinatorNotAvailable,
    GroupIdNotFound,
    GroupNotEmpty,
    IllegalGeneration,
    RebalanceInProgress,
    UnknownMemberId,
)

if TYPE_CHECKING:
    from coordinator.group.classic.group import ClassicGroup


def validate_offset_commit(
    group: ClassicGroup, member_id: str, group_instance_id: str | None, generation: int, transactional: bool
) -> None:
    """Raises the error for a commit that is not allowed (Kafka's `ClassicGroup.validateOffsetCommit`).

    Without members, a group accepts commits without a generation from anyone (simple consumers, admin clients). With
    members, it accepts those of its current generation, and transactional ones that name no member (KIP-447).
    """
    if group.state is GroupState.DEAD:
        raise CoordinatorNotAvailable
    if generation < 0 and group.is_empty:
        return
    if generation >= 0 or member_id or group_instance_id is not None:
        group.check_member(member_id, group_instance_id)
        if generation != group.generation:
            raise IllegalGeneration
    elif not transactional and not group.is_empty:
        raise UnknownMemberId
    if not transactional and group.state is GroupState.COMPLETING_REBALANCE:
        raise RebalanceInProgress


def validate_offset_delete(group: ClassicGroup) -> None:
    """Raises GroupIdNotFound or GroupNotEmpty. A running group of consumers protects only topics it subscribes to."""
    if group.state is GroupState.DEAD:
        raise GroupIdNotFound(f"Group {group.group_id} is in dead state.")
    if not group.is_empty and not group.uses_consumer_protocol:
        raise GroupNotEmpty


def validate_delete(group: ClassicGroup) -> None:
    """Raises GroupIdNotFound or GroupNotEmpty."""
    if group.state is GroupState.DEAD:
        raise GroupIdNotFound(f"Group {group.group_id} is in dead state.")
    if not group.is_empty:
        raise GroupNotEmpty


def offset_expires_from(group: ClassicGroup, commit_timestamp_ms: int) -> int | None:
    """When the retention of an offset committed at that time starts; None: not yet (KIP-211, KIP-496).

    For simple consumers it is the commit. For a group it is when it became Empty (the commit if an old record does not
    tell), and, for topics that it no longer subscribes to, the commit while it is Stable.
    """
    if group.protocol_type is None:
        return commit_timestamp_ms
    if group.is_empty:
        return commit_timestamp_ms if group.state_timestamp_ms is None else group.state_timestamp_ms
    if group.state is GroupState.STABLE and group.uses_consumer_protocol and group.subscribed_topics is not None:
        return commit_timestamp_ms
    return None
