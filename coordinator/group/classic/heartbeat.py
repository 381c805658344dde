"""Heartbeat to a classic group (Kafka's `GroupMetadataManager.classicGroupHeartbeat`)."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from coordinator.group.classic.groups import ClassicGroups
from coordinator.group.classic.messages import HeartbeatRequest
from coordinator.group.classic.states import GroupState
from coordinator.runtime.outcome import Outcome
from protocol.errors import IllegalGeneration, UnknownMemberId


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
