"""SyncGroup, Heartbeat and LeaveGroup to a classic group (Kafka's `GroupMetadataManager.classicGroupSync` and so on).

How it works: a SyncGroup waits for that of the leader, which brings the assignments; they are written as one record,
and given out when it is committed. A heartbeat only moves the end of the member's session. Who leaves is removed at
once, whatever the group's state.
"""

from __future__ import annotations

import structlog
from kio.schema.errors import ErrorCode

from coordinator.group.classic.group import ClassicGroup, GroupState, generation_record
from coordinator.group.classic.groups import ClassicGroups, assignment_of
from coordinator.group.classic.members import (
    HeartbeatRequest,
    LeaveAnswer,
    LeaveRequest,
    Member,
    MemberIdentity,
    SyncAnswer,
    SyncRequest,
)
from coordinator.runtime.outcome import Outcome
from coordinator.runtime.replies import Waiter
from protocol.errors import (
    FencedInstanceId,
    IllegalGeneration,
    InconsistentGroupProtocol,
    KafkaError,
    RebalanceInProgress,
    UnknownMemberId,
)

logger = structlog.get_logger(__name__)


def sync(groups: ClassicGroups, request: SyncRequest) -> Outcome[SyncAnswer]:
    """Raises the KafkaError that the request is refused with."""
    group = groups.by_id.get(request.group_id)
    if group is None or group.is_empty:
        raise UnknownMemberId
    group.check_member(request.member_id, request.group_instance_id)
    if request.generation != group.generation:
        raise IllegalGeneration
    if _contradicts(request.protocol_type, group.protocol_type) or _contradicts(
        request.protocol_name, group.protocol_name
    ):
        raise InconsistentGroupProtocol
    member = group.members[request.member_id]
    if group.state is GroupState.PREPARING_REBALANCE:
        raise RebalanceInProgress
    if group.state is GroupState.STABLE:
        return Outcome(
            reply=assignment_of(group, member), effects=lambda _: groups.rebalances.synced(group, member.member_id)
        )
    waiter = groups.context.waiter()
    if group.leader_id != member.member_id:
        return Outcome(reply=waiter, effects=lambda _: _park(groups, group, member, waiter))
    return _assign(groups, group, request, waiter)


def _contradicts(named: str | None, chosen: str | None) -> bool:
    return named is not None and chosen is not None and named != chosen


def _park(groups: ClassicGroups, group: ClassicGroup, member: Member, waiter: Waiter[SyncAnswer]) -> None:
    """Let the member wait for the leader's assignment. An earlier SyncGroup of it is answered REBALANCE_IN_PROGRESS.

    Deviation: Kafka never answers the earlier one.
    """
    member.answer_sync(SyncAnswer(ErrorCode.rebalance_in_progress))
    member.awaiting_sync = waiter.answer
    groups.rebalances.synced(group, member.member_id)


def _assign(
    groups: ClassicGroups, group: ClassicGroup, request: SyncRequest, waiter: Waiter[SyncAnswer]
) -> Outcome[SyncAnswer]:
    """Make the leader's assignments, and with them the generation, durable."""
    leader = group.members[request.member_id]
    missing = [member_id for member_id in group.members if member_id not in request.assignments]
    logger.info(
        "assignment received from leader",
        group=group.group_id,
        generation=group.generation,
        leader=leader.member_id,
        members=len(group.members),
        static=len(group.static_ids),
        without_assignment=missing,
    )
    record = generation_record(group, group.members.values(), request.assignments, group.leader_id)

    def effects(error: KafkaError | None) -> None:
        _park(groups, group, leader, waiter)
        if error is None:
            groups.rebalances.hand_out(group)
        else:
            groups.rebalances.refuse_assignments(group, error.code)
            groups.rebalances.prepare(
                group,
                f"error {error.code.name} when storing group assignment during SyncGroup (member: {leader.member_id})",
            )

    return Outcome((record,), waiter, effects)


def heartbeat(groups: ClassicGroups, request: HeartbeatRequest) -> Outcome[ErrorCode]:
    """Answer REBALANCE_IN_PROGRESS, which still counts as a sign of life; other refusals are raised."""
    group = groups.by_id.get(request.group_id)
    if group is None:
        raise UnknownMemberId
    group.check_member(request.member_id, request.group_instance_id)
    if request.generation_id != group.generation:
        raise IllegalGeneration
    member = group.members[request.member_id]
    # Nothing is written, so nothing can fail.
    groups.timeouts.start_session(group.group_id, member.member_id, member.session_timeout_ms)
    return _REBALANCING if group.state is GroupState.PREPARING_REBALANCE else _GO_ON


_GO_ON = Outcome(reply=ErrorCode.none)
_REBALANCING = Outcome(reply=ErrorCode.rebalance_in_progress)


def leave(groups: ClassicGroups, request: LeaveRequest) -> Outcome[LeaveAnswer]:
    """Remove the members; if the group does not exist, each is unknown.

    The answer is sent by a separate message after those that the leaving caused: an empty group is recorded by then.
    """
    group = groups.by_id.get(request.group_id)
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
    elif groups.end_pending(group, member_id):
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
