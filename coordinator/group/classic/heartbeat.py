"""Heartbeat to a classic group (Kafka's `GroupMetadataManager.classicGroupHeartbeat`), and the end of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog
from kio.schema.errors import ErrorCode

from coordinator.group.classic.messages import HeartbeatRequest
from coordinator.group.classic.states import GroupState
from coordinator.runtime.outcome import Outcome
from protocol.errors import IllegalGeneration, UnknownMemberId

if TYPE_CHECKING:
    from coordinator.group.classic.groups import ClassicGroups
    from coordinator.group.classic.sessions import DelayedHeartbeat

logger = structlog.get_logger(__name__)


def heartbeat(groups: ClassicGroups, request: HeartbeatRequest) -> Outcome[ErrorCode]:
    """Answer REBALANCE_IN_PROGRESS, which still counts as a sign of life; other refusals are raised."""
    group = groups.find(request.group_id)
    if group is None:
        raise UnknownMemberId
    group.check_member(request.member_id, request.group_instance_id)
    if request.generation_id != group.generation:
        raise IllegalGeneration
    member = group.members[request.member_id]
    groups.sessions.restart(group, member)  # nothing is written, so nothing can fail
    return _REBALANCING if group.state is GroupState.PREPARING_REBALANCE else _GO_ON


_GO_ON = Outcome(reply=ErrorCode.none)
_REBALANCING = Outcome(reply=ErrorCode.rebalance_in_progress)


def session_ended(groups: ClassicGroups, group_id: str, member_id: str, session: DelayedHeartbeat) -> None:
    """The effects of an expiry: the member, or the id handed out to one, is removed. A stale expiry does nothing."""
    group = groups.find(group_id)
    if group is None:
        return
    if group.pending.get(member_id) is session:
        groups.sessions.end_pending(group, member_id)
        logger.info("pending member removed after session timeout", group=group_id, member=member_id)
        groups.rebalances.member_gone(group)
        return
    member = group.members.get(member_id)
    if member is None or member.session is not session or groups.sessions.was_prolonged(group, member, session):
        return
    if member.is_waiting:
        return
    logger.info("member session expired", group=group_id, member=member_id)
    groups.metrics.expired_members += 1
    groups.rebalances.remove(group, member)
    if group.state is GroupState.PREPARING_REBALANCE:
        groups.rebalances.member_gone(group)
    else:
        groups.rebalances.prepare(group, f"removing member {member_id} on heartbeat expiration")
