"""Who may be a member of a streams group: requests, the group's size, member epochs, static members."""

from __future__ import annotations

import structlog

from coordinator.group.consumer.change import Change
from coordinator.group.streams import records
from coordinator.group.streams.group import StreamsGroup
from coordinator.group.streams.member import StreamsMember
from coordinator.group.streams.messages import JOINING, LEFT, LEFT_FOR_A_WHILE, UNCHANGED, StreamsHeartbeat
from coordinator.group.streams.tasks import is_none, is_part_of
from coordinator.group.streams.topology import check_topology
from protocol.coordinator_records.streams_group_records import Tasks
from protocol.errors import (
    FencedInstanceId,
    FencedMemberEpoch,
    InvalidRequest,
    UnknownMemberId,
    UnreleasedInstanceId,
)
from protocol.java_strings import java_trim

logger = structlog.get_logger(__name__)


def check_request(request: StreamsHeartbeat) -> None:
    """Raises InvalidRequest, or what `check_topology` does, if the request is wrong in itself."""
    for text, name in (
        (request.member_id, "MemberId"),
        (request.group_id, "GroupId"),
        (request.instance_id, "InstanceId"),
        (request.rack_id, "RackId"),
    ):
        if text is not None and not java_trim(text):
            raise InvalidRequest(f"{name} can't be empty.")
    if request.member_epoch == JOINING:
        if request.rebalance_timeout_ms == UNCHANGED:
            raise InvalidRequest("RebalanceTimeoutMs must be provided in first request.")
        if request.owned is None or not is_none(request.owned):
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


def member_before(group: StreamsGroup, request: StreamsHeartbeat, change: Change) -> StreamsMember:
    """The member before the request; a new one has nothing yet.

    Raises UnknownMemberId, FencedMemberEpoch, FencedInstanceId, UnreleasedInstanceId.
    """
    joins = request.member_epoch == JOINING
    if request.instance_id is not None:
        known = _static_member(group, request, request.instance_id, joins, change)
    else:
        known = group.members.get(request.member_id, StreamsMember(request.member_id))
        if not joins:
            known = group.member(request.member_id)
    if not joins:
        _check_epoch(known, request.member_epoch, request.owned)
    elif request.member_id not in group.members:
        logger.info("member joined the streams group", group=group.group_id, member=request.member_id)
    return known


def leaving_member(group: StreamsGroup, request: StreamsHeartbeat) -> StreamsMember:
    """Raises UnknownMemberId, FencedInstanceId."""
    if request.member_epoch >= LEFT and request.instance_id is None:
        return group.member(request.member_id)
    return _known_static_member(group, request.member_id, request.instance_id or "")


def _check_epoch(member: StreamsMember, epoch: int, owned: Tasks | None) -> None:
    """Raises FencedMemberEpoch unless `epoch` is the member's.

    The previous epoch is accepted while the member owns nothing it should not: it may have missed the last answer.
    """
    is_late = epoch == member.previous_epoch and owned is not None and is_part_of(owned, member.assigned)
    if epoch > member.epoch or (epoch < member.epoch and not is_late):
        kind = "greater" if epoch > member.epoch else "smaller"
        raise FencedMemberEpoch(
            f"The streams group member has a {kind} member epoch ({epoch}) than the one known by the group coordinator "
            f"({member.epoch}). The member must abandon all its partitions and rejoin."
        )


def _known_static_member(group: StreamsGroup, member_id: str, instance_id: str) -> StreamsMember:
    member = group.static_member(instance_id)
    if member is None:
        raise UnknownMemberId(f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        raise FencedInstanceId(
            f"Static member {member_id} with instance id {instance_id} was fenced by member {member.member_id}."
        )
    return member


def _static_member(
    group: StreamsGroup, request: StreamsHeartbeat, instance_id: str, joins: bool, change: Change
) -> StreamsMember:
    """A static member that joins, perhaps in the place of one that is away, or a known one."""
    if not joins:
        return _known_static_member(group, request.member_id, instance_id)
    before = group.static_member(instance_id)
    if before is None:
        return group.members.get(request.member_id) or StreamsMember(request.member_id)
    if not before.is_away:
        raise UnreleasedInstanceId(
            f"Static member {request.member_id} with instance id {instance_id} cannot join the group because the "
            f"instance id is owned by {before.member_id} member."
        )
    after = before._replace(member_id=request.member_id, epoch=JOINING, previous_epoch=JOINING)
    change.records += records.member_tombstones(group.group_id, before.member_id)
    change.records += (
        records.member(group.group_id, after),
        records.target(group.group_id, after.member_id, group.target_of(before.member_id)),
        records.current_assignment(group.group_id, after),
    )
    return after
