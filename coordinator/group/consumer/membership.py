"""Who may be a member of a consumer group: its size, member epochs, static members (KIP-345 within KIP-848)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import structlog

from coordinator.group.consumer import records
from coordinator.group.consumer.assignment import NO_PARTITIONS, Partitions
from coordinator.group.consumer.change import Change
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.member import JOINING, LEFT_FOR_A_WHILE, ConsumerMember
from protocol.errors import (
    FencedInstanceId,
    FencedMemberEpoch,
    GroupMaxSizeReached,
    UnknownMemberId,
    UnreleasedInstanceId,
)

logger = structlog.get_logger(__name__)


class _Group(Protocol):
    """A consumer or streams group; `static_ids` are member ids by instance id."""

    @property
    def protocol_type(self) -> str | None: ...

    @property
    def members(self) -> Mapping[str, object]: ...

    @property
    def static_ids(self) -> Mapping[str, str]: ...


def check_room(group: _Group, member_id: str, instance_id: str | None, limit: int) -> None:
    """Raises GroupMaxSizeReached if a newcomer meets a full group; a known static member is no newcomer."""
    if (instance_id is not None and instance_id in group.static_ids) or member_id in group.members:
        return
    if len(group.members) >= limit:
        raise GroupMaxSizeReached(
            f"The {group.protocol_type} group has reached its maximum capacity of {limit} members."
        )


def check_epoch(member: ConsumerMember, epoch: int, owned: Partitions | None) -> None:
    """Raises FencedMemberEpoch unless `epoch` is the member's.

    The previous epoch is accepted while the member owns nothing it should not: it may have missed the last answer. A
    member that joins again, whatever its epoch was, owns nothing.
    """
    if epoch == JOINING:
        return
    if epoch > member.epoch:
        raise FencedMemberEpoch(
            f"The consumer group member has a greater member epoch ({epoch}) than the one known by the group "
            f"coordinator ({member.epoch}). The member must abandon all its partitions and rejoin."
        )
    if epoch < member.epoch and (epoch != member.previous_epoch or not _is_part_of(owned, member.assigned)):
        raise FencedMemberEpoch(
            f"The consumer group member has a smaller member epoch ({epoch}) than the one known by the group "
            f"coordinator ({member.epoch}). The member must abandon all its partitions and rejoin."
        )


def _is_part_of(owned: Partitions | None, assigned: Partitions) -> bool:
    return owned is not None and all(topic in assigned and owned[topic] <= assigned[topic] for topic in owned)


def known_static_member(group: ConsumerGroup, member_id: str, instance_id: str) -> ConsumerMember:
    """Raises UnknownMemberId, and FencedInstanceId if the instance id now belongs to another member."""
    member = group.static_member(instance_id)
    if member is None:
        raise UnknownMemberId(f"Instance id {instance_id} is unknown.")
    check_not_fenced(member, member_id, instance_id)
    return member


def check_not_fenced(member: ConsumerMember, member_id: str, instance_id: str) -> None:
    if member.member_id != member_id:
        raise FencedInstanceId(
            f"Static member {member_id} with instance id {instance_id} was fenced by member {member.member_id}."
        )


def static_member(
    group: ConsumerGroup, member_id: str, instance_id: str, joins: bool, change: Change, *, is_classic: bool
) -> ConsumerMember:
    """A static member that joins, perhaps replacing another, or a known one.

    Raises what `known_static_member` does, and UnreleasedInstanceId while the other is still a member; one that speaks
    the consumer protocol must first have said that it leaves for a while.
    """
    if not joins:
        return known_static_member(group, member_id, instance_id)
    before = group.static_member(instance_id)
    protocol = "classic" if is_classic else "consumer"
    logger.info(
        "static member joined the consumer group",
        group=group.group_id,
        member=member_id,
        group_instance_id=instance_id,
        protocol=protocol,
        before=None if before is None else before.member_id,
    )
    if before is None:
        return group.members.get(member_id) or ConsumerMember(member_id)
    if not is_classic and not before.is_classic and before.epoch != LEFT_FOR_A_WHILE:
        raise UnreleasedInstanceId(
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id "
            f"is owned by {before.member_id} member."
        )
    after = before._replace(member_id=member_id, epoch=JOINING, previous_epoch=JOINING)
    _replace(group, before, after, change)
    return after


def _replace(group: ConsumerGroup, before: ConsumerMember, after: ConsumerMember, change: Change) -> None:
    """Put a static member in the place of another. The replaced one's timers run on, and find no member."""
    group_id = group.group_id
    change.records += records.member_tombstones(group_id, before.member_id)
    change.records += (
        records.member(group_id, after),
        records.target(group_id, after.member_id, group.target.get(before.member_id, NO_PARTITIONS)),
        records.current_assignment(group_id, after),
    )
