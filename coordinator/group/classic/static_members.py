"""A static member that rejoins without a member id takes the place of the one with its instance id (KIP-345).

Kafka's `GroupMetadataManager.updateStaticMemberThenRebalanceOrCompleteJoin`.
"""

from __future__ import annotations

import structlog
from kio.schema.errors import ErrorCode

from coordinator.group.classic import records
from coordinator.group.classic.capacity import has_room
from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.groups import ClassicGroups
from coordinator.group.classic.member import Member
from coordinator.group.classic.messages import JoinAnswer, JoinRequest, Reply, SyncAnswer
from coordinator.group.classic.protocols import choose_protocol, common_protocols
from coordinator.group.classic.rebalance import present_generation
from coordinator.group.classic.states import GroupState
from coordinator.runtime.outcome import Outcome
from protocol.errors import KafkaError

logger = structlog.get_logger(__name__)


def keeps_assignment(group: ClassicGroup, request: JoinRequest, max_size: int) -> bool:
    """Whether a known static member rejoins a Stable group whose protocol stays the same.

    If so, it gets the assignment of its predecessor, and the others notice nothing.
    """
    if request.group_instance_id is None or request.member_id or group.state is not GroupState.STABLE:
        return False
    old_id = group.static_ids.get(request.group_instance_id)
    if old_id is None:
        return False
    if not has_room(group, "", max_size) or not group.supports(request.protocol_type, request.protocols):
        return False
    protocols = [
        request.protocols if member.member_id == old_id else member.protocols for member in group.members.values()
    ]
    return choose_protocol(protocols, common_protocols(protocols)) == group.protocol_name


def take_place_in_stable_group(groups: ClassicGroups, group: ClassicGroup, request: JoinRequest) -> Outcome[JoinAnswer]:
    """The operation that records the new member id, for a join that `keeps_assignment`.

    A client that does not know `skip_assignment` is given the former leader's id as the leader, so that it assigns
    nothing; one that does gets the members if it leads.
    """
    assert request.group_instance_id is not None, "a static member's"
    old_leader = group.leader_id
    old = group.members[group.static_ids[request.group_instance_id]]
    new = _successor(groups, old, request)
    members = [new if member is old else member for member in group.members.values()]
    record = records.generation(
        group,
        members,
        {member.member_id: member.assignment for member in members},
        new.member_id if old_leader == old.member_id else old_leader,
    )
    waiter = groups.context.waiter()

    def effects(error: KafkaError | None) -> None:
        if error is not None:
            return
        logger.info(
            "static member rejoined",
            group=group.group_id,
            group_instance_id=request.group_instance_id,
            member=new.member_id,
            before=old.member_id,
        )
        _fence(groups, group, old)
        member = group.members[new.member_id]
        group.set_protocols(member, request.protocols)
        _start_session(groups, group, member, old)
        answer = present_generation(group, member)
        if request.can_skip_assignment:
            waiter.answer(answer._replace(skip_assignment=group.leader_id == member.member_id))
        else:
            waiter.answer(answer._replace(leader=old_leader or "", members=()))

    return Outcome((record,), waiter, effects)


def take_place(groups: ClassicGroups, group: ClassicGroup, request: JoinRequest, reply: Reply[JoinAnswer]) -> None:
    """The effects of any other join of a known static member: it waits for a rebalance."""
    assert request.group_instance_id is not None, "a static member's"
    old = group.members[group.static_ids[request.group_instance_id]]
    new = _successor(groups, old, request)
    _fence(groups, group, old)
    group.replace(old, new)
    _start_session(groups, group, new, old)
    group.rejoin(new, request, reply)
    which = f"static member {new.member_id} with instance id {new.group_instance_id}"
    match group.state:
        case GroupState.STABLE:
            reason = f"group's selected protocol will change because {which} joined with change of protocol"
            groups.rebalances.prepare(group, f"{reason}; client reason: {request.client_reason}")
        case GroupState.COMPLETING_REBALANCE:
            # The leader may be assigning partitions to the old member id.
            reason = f"updating metadata for {which}"
            groups.rebalances.prepare(group, f"{reason}; client reason: {request.client_reason}")
        case _:
            groups.rebalances.check_joined(group)


def _successor(groups: ClassicGroups, old: Member, request: JoinRequest) -> Member:
    return Member(
        groups.new_member_id(old.group_instance_id or ""),
        old.group_instance_id,
        old.client_id,
        old.client_host,
        request.rebalance_timeout_ms,
        request.session_timeout_ms,
        request.protocols,
        old.assignment,
    )


def _start_session(groups: ClassicGroups, group: ClassicGroup, new: Member, old: Member) -> None:
    """Start the new member's first session: as in Kafka it lasts as long as the old one's, until a sign of life."""
    groups.sessions.restart(group, new, old.session_timeout_ms)


def _fence(groups: ClassicGroups, group: ClassicGroup, old: Member) -> None:
    """Invalidate the old member id, and answer its parked requests accordingly."""
    groups.sessions.end(old)
    group.answer_join(old, JoinAnswer(old.member_id, ErrorCode.fenced_instance_id))
    old.answer_sync(SyncAnswer(ErrorCode.fenced_instance_id))
