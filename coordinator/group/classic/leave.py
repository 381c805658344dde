"""LeaveGroup to a classic group (Kafka's `GroupMetadataManager.classicGroupLeave`)."""

from __future__ import annotations

import structlog
from kio.schema.errors import ErrorCode

from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.groups import ClassicGroups
from coordinator.group.classic.messages import LeaveRequest, MemberIdentity
from coordinator.runtime.outcome import Outcome
from protocol.errors import FencedInstanceId, KafkaError, UnknownMemberId

logger = structlog.get_logger(__name__)

LeaveAnswer = tuple[ErrorCode, ...]
"""An error code for each member of the request."""


def leave(groups: ClassicGroups, request: LeaveRequest) -> Outcome[LeaveAnswer]:
    """Remove the members; if the group does not exist, each is unknown.

    The answer is sent by a separate message after those that the leaving caused: an empty group is recorded by then.
    """
    group = groups.find(request.group_id)
    if group is None:
        return Outcome(reply=(ErrorCode.unknown_member_id,) * len(request.members))
    waiter = groups.context.waiter()

    def effects(_: KafkaError | None) -> None:
        errors = tuple(_remove(groups, group, identity) for identity in request.members)
        gone = [identity.member_id for identity, error in zip(request.members, errors, strict=True) if not error]
        if gone and not group.is_empty:
            reason = f"explicit `LeaveGroup` request for ({', '.join(gone)}) members"
            groups.rebalances.prepare_if_possible(group, reason)
        groups.context.tell(lambda _: Outcome(effects=lambda _: waiter.answer(errors)))

    return Outcome(reply=waiter, effects=effects)


def _remove(groups: ClassicGroups, group: ClassicGroup, identity: MemberIdentity) -> ErrorCode:
    member_id = identity.member_id
    if not member_id and identity.group_instance_id is not None:
        # An administrator may name only the instance.
        member_id = group.static_ids.get(identity.group_instance_id, "")
    elif groups.sessions.end_pending(group, member_id):
        _log(group, member_id, identity, pending=True)
        return ErrorCode.none
    try:
        group.check_member(member_id, identity.group_instance_id)
    except (UnknownMemberId, FencedInstanceId) as refused:
        return refused.code
    _log(group, member_id, identity, pending=False)
    groups.rebalances.remove(group, group.members[member_id])
    return ErrorCode.none


def _log(group: ClassicGroup, member_id: str, identity: MemberIdentity, *, pending: bool) -> None:
    logger.info(
        "member left the group",
        group=group.group_id,
        member=member_id,
        state=group.state_name,
        pending=pending,
        client_reason=identity.reason or "not provided",
    )
