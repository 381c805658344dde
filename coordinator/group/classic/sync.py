"""SyncGroup to a classic group (Kafka's `GroupMetadataManager.classicGroupSync`)."""

from __future__ import annotations

import structlog
from kio.schema.errors import ErrorCode

from coordinator.group.classic import records
from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.groups import ClassicGroups
from coordinator.group.classic.member import Member
from coordinator.group.classic.messages import SyncAnswer, SyncRequest
from coordinator.group.classic.rebalance import assignment_of
from coordinator.group.classic.states import GroupState
from coordinator.runtime.outcome import Outcome
from coordinator.runtime.waiter import Waiter
from protocol.errors import (
    IllegalGeneration,
    InconsistentGroupProtocol,
    KafkaError,
    RebalanceInProgress,
    UnknownMemberId,
)

logger = structlog.get_logger(__name__)


def sync(groups: ClassicGroups, request: SyncRequest) -> Outcome[SyncAnswer]:
    """Raises the KafkaError that the request is refused with."""
    group = groups.find(request.group_id)
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
    record = records.generation(group, group.members.values(), request.assignments, group.leader_id)

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
