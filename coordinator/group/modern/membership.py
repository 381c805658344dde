"""Who may be a member of a modern group: its size, member epochs, static members (KIP-345 within KIP-848)."""

from __future__ import annotations

from typing import Any, cast

import structlog

from coordinator.group.modern.advance import Change
from coordinator.group.modern.group import JOINING, LEFT_FOR_A_WHILE, A, M, ModernGroup, ModernMember
from protocol.errors import (
    FencedInstanceId,
    FencedMemberEpoch,
    GroupMaxSizeReached,
    InvalidRequest,
    UnknownMemberId,
    UnreleasedInstanceId,
)
from protocol.java_strings import java_trim

logger = structlog.get_logger(__name__)


def check_text(text: str | None, name: str) -> None:
    """Raises InvalidRequest for a text that is there and empty."""
    if text is not None and not java_trim(text):
        raise InvalidRequest(f"{name} can't be empty.")


def check_room(group: ModernGroup[M, A], member_id: str, instance_id: str | None, limit: int) -> None:
    """Raises GroupMaxSizeReached if a newcomer meets a full group; a known static member is no newcomer."""
    if (instance_id is not None and instance_id in group.static_ids) or member_id in group.members:
        return
    if len(group.members) >= limit:
        raise GroupMaxSizeReached(
            f"The {group.protocol_type} group has reached its maximum capacity of {limit} members."
        )


def check_epoch(group: ModernGroup[M, A], member: M, epoch: int, *, may_be_late: bool) -> None:
    """Raises FencedMemberEpoch unless `epoch` is the member's.

    The previous epoch is accepted if `may_be_late`: while the member owns nothing it should not, it may have missed the
    last answer.
    """
    if epoch == member.epoch or (may_be_late and epoch == member.previous_epoch < member.epoch):
        return
    raise FencedMemberEpoch(
        f"The {group.protocol_type} group member has a {'greater' if epoch > member.epoch else 'smaller'} member epoch "
        f"({epoch}) than the one known by the group coordinator ({member.epoch}). The member must abandon all its "
        "partitions and rejoin."
    )


def known_member(group: ModernGroup[M, A], member_id: str, instance_id: str | None) -> M:
    """Raises UnknownMemberId, and FencedInstanceId if the instance id now belongs to another member."""
    if instance_id is None:
        return group.member(member_id)
    member = group.static_member(instance_id)
    if member is None:
        raise UnknownMemberId(f"Instance id {instance_id} is unknown.")
    check_not_fenced(member, member_id, instance_id)
    return member


def check_not_fenced(member: ModernMember, member_id: str, instance_id: str) -> None:
    if member.member_id != member_id:
        raise FencedInstanceId(
            f"Static member {member_id} with instance id {instance_id} was fenced by member {member.member_id}."
        )


def joining_member(
    group: ModernGroup[M, A], member_id: str, instance_id: str | None, change: Change, *, is_classic: bool = False
) -> M:
    """The member before it joins: a new one, one that joins again, or a static one in the place of another.

    Raises UnreleasedInstanceId while the other is still a member; one that speaks the group's own protocol must first
    have said that it leaves for a while.
    """
    before = group.static_member(instance_id)
    logger.info(
        "member joined",
        group=group.group_id,
        kind=group.group_type.value,
        member=member_id,
        group_instance_id=instance_id,
        protocol="classic" if is_classic else group.protocol_type,
        before=None if before is None else before.member_id,
    )
    if before is None:
        return group.members.get(member_id) or group.new_member(member_id)
    if not is_classic and not before.is_classic and before.epoch != LEFT_FOR_A_WHILE:
        raise UnreleasedInstanceId(
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id "
            f"is owned by {before.member_id} member."
        )
    return _replace(group, before, member_id, change)


def _replace(group: ModernGroup[M, A], before: M, member_id: str, change: Change) -> M:
    """Put a static member in the place of another. The replaced one's timers run on, and find no member."""
    after: M = cast(Any, before)._replace(member_id=member_id, epoch=JOINING, previous_epoch=JOINING)
    change.records += group.member_tombstones(before.member_id)
    change.records += (
        group.member_record(after),
        group.target_record(member_id, group.target.get(before.member_id, group.nothing)),
        group.assignment_record(after),
    )
    return after
