"""JoinGroup to a classic group (Kafka's `GroupMetadataManager.classicGroupJoin`).

How it works: a join changes only soft state, so it is done in the effects of its operation (`admit`), which writes
nothing but the record of a new group. Its answer is given at the end of the join phase, or at once where nobody need
wait. A static member that comes back without its member id takes the place of the one with its instance id (KIP-345):
in a Stable group whose protocol stays the same it gets the assignment of its predecessor, with a record that has the
new member id (`updateStaticMemberThenRebalanceOrCompleteJoin`).
"""

from __future__ import annotations

import structlog
from kio.schema.errors import ErrorCode

from coordinator.group.classic.group import ClassicGroup, GroupState, generation_record, new_group_record
from coordinator.group.classic.groups import ClassicGroups, present_generation
from coordinator.group.classic.members import (
    CONSUMER_PROTOCOL_TYPE,
    UNKNOWN_MEMBER_ID,
    JoinAnswer,
    JoinRequest,
    Member,
    Reply,
    SyncAnswer,
    choose_protocol,
    common_protocols,
    subscribed_topics,
)
from coordinator.group.kinds import GroupConfig
from coordinator.runtime.outcome import Outcome
from protocol.consumer_protocol import ImpossibleLengthError, SchemaError
from protocol.errors import FencedInstanceId, KafkaError, UnknownMemberId

logger = structlog.get_logger(__name__)

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
"""The longest that a new member's JoinGroup waits: without an id it sends no heartbeats, so it may have given up."""


def check_request(request: JoinRequest, config: GroupConfig) -> ErrorCode:
    """The error of a request that is wrong in itself, whichever coordinator it was meant for.

    Deviation: a "consumer" subscription with an impossible length is refused with INVALID_REQUEST. Kafka takes it,
    fails with UNKNOWN_SERVER_ERROR when the join phase ends, and leaves the other members without an answer.
    """
    if not request.group_id:
        return ErrorCode.invalid_group_id
    if not config.min_session_timeout_ms <= request.session_timeout_ms <= config.max_session_timeout_ms:
        return ErrorCode.invalid_session_timeout
    if request.protocol_type == CONSUMER_PROTOCOL_TYPE and _has_impossible_length(request):
        return ErrorCode.invalid_request
    return ErrorCode.none


def _has_impossible_length(request: JoinRequest) -> bool:
    for protocol in request.protocols:
        try:
            subscribed_topics(protocol.metadata)
        except ImpossibleLengthError as error:
            logger.warning("subscription with an impossible length refused", group=request.group_id, error=str(error))
            return True
        except SchemaError:
            continue
    return False


def join(groups: ClassicGroups, request: JoinRequest) -> Outcome[JoinAnswer]:
    """Handle a request that passes `check_request`. Errors are in the answer, with a member id."""
    group = groups.by_id.get(request.group_id)
    if group is None and request.member_id != UNKNOWN_MEMBER_ID:
        return Outcome(reply=JoinAnswer(request.member_id, ErrorCode.unknown_member_id))
    if group is not None and keeps_assignment(group, request, groups.config.max_size):
        return take_place_in_stable_group(groups, group, request)
    waiter = groups.context.waiter()

    def effects(error: KafkaError | None) -> None:
        joined = groups.by_id.get(request.group_id)
        if error is None and joined is not None:
            admit(groups, joined, request, waiter.answer)

    new = () if group is not None else (new_group_record(request.group_id, groups.context.clock.wall_ms()),)
    return Outcome(new, waiter, effects)


def admit(groups: ClassicGroups, group: ClassicGroup, request: JoinRequest, reply: Reply[JoinAnswer]) -> None:
    """The effects of a join: it changes soft state, and is answered now or at the end of the join phase."""
    if not group.has_room(request.member_id, groups.config.max_size):
        _turn_away(groups, group, request.member_id)
        reply(JoinAnswer(UNKNOWN_MEMBER_ID, ErrorCode.group_max_size_reached))
    elif not group.supports(request.protocol_type, request.protocols):
        reply(JoinAnswer(request.member_id, ErrorCode.inconsistent_group_protocol))
    elif request.member_id == UNKNOWN_MEMBER_ID:
        _admit_unknown(groups, group, request, reply)
    elif request.member_id in group.pending and request.group_instance_id is not None:
        reply(JoinAnswer(UNKNOWN_MEMBER_ID, ErrorCode.invalid_request))  # static members are given no id first
    elif groups.end_pending(group, request.member_id):
        add_member(groups, group, request, request.member_id, reply)
    else:
        _admit_known(groups, group, request, reply)


def _turn_away(groups: ClassicGroups, group: ClassicGroup, member_id: str) -> None:
    member = group.members.get(member_id)
    if member is not None:
        groups.rebalances.remove(group, member)
    elif not groups.end_pending(group, member_id):
        return
    groups.rebalances.check_joined(group)


def _admit_unknown(groups: ClassicGroups, group: ClassicGroup, request: JoinRequest, reply: Reply[JoinAnswer]) -> None:
    if request.group_instance_id in group.static_ids:
        take_place(groups, group, request, reply)
        return
    instance_id = request.group_instance_id
    member_id = groups.new_member_id(request.client_id if instance_id is None else instance_id)
    if request.member_id_required and instance_id is None:
        groups.start_pending(group, member_id, request.session_timeout_ms)
        reply(JoinAnswer(member_id, ErrorCode.member_id_required))
    else:
        add_member(groups, group, request, member_id, reply)


def _admit_known(groups: ClassicGroups, group: ClassicGroup, request: JoinRequest, reply: Reply[JoinAnswer]) -> None:
    member_id = request.member_id
    try:
        group.check_member(member_id, request.group_instance_id)
    except (UnknownMemberId, FencedInstanceId) as refused:
        reply(JoinAnswer(member_id, refused.code))
        return
    member = group.members[member_id]
    if group.state is GroupState.PREPARING_REBALANCE:
        group.rejoin(member, request, reply)
        groups.rebalances.check_joined(group)
        return
    state = group.state_name
    if member.protocols != request.protocols:
        reason = f"updating metadata for member {member_id} during {state}"
    elif group.state is GroupState.STABLE and group.leader_id == member_id:
        # Besides the members' metadata, what the leader sees (the partitions of a topic) may have changed.
        reason = f"leader {member_id} re-joining group during {state}"
    else:
        # The member may not have received the answer to its last JoinGroup.
        reply(present_generation(group, member))
        return
    group.rejoin(member, request, reply)
    groups.rebalances.prepare(group, f"{reason}; client reason: {request.client_reason}")


def add_member(
    groups: ClassicGroups, group: ClassicGroup, request: JoinRequest, member_id: str, reply: Reply[JoinAnswer]
) -> None:
    """Add a new member, which waits for the rebalance that it starts or joins."""
    member = Member(
        member_id,
        request.group_instance_id,
        request.client_id,
        request.client_host,
        request.rebalance_timeout_ms,
        request.session_timeout_ms,
        request.protocols,
        is_new=True,
    )
    if group.state is GroupState.PREPARING_REBALANCE and group.previous_state is GroupState.EMPTY:
        group.member_joined_meanwhile = True
    group.add(member, request.protocol_type, reply)
    groups.timeouts.start_session(group.group_id, member_id, NEW_MEMBER_JOIN_TIMEOUT_MS)
    groups.rebalances.prepare_if_possible(
        group,
        f"adding new member {member_id} with group instance id {request.group_instance_id}; "
        f"client reason: {request.client_reason}",
    )


# -- static members: one that rejoins without a member id takes the place of the one with its instance id (KIP-345)


def keeps_assignment(group: ClassicGroup, request: JoinRequest, max_size: int) -> bool:
    """Whether a known static member rejoins a Stable group whose protocol stays the same.

    If so, it gets the assignment of its predecessor, and the others notice nothing.
    """
    if request.group_instance_id is None or request.member_id or group.state is not GroupState.STABLE:
        return False
    old_id = group.static_ids.get(request.group_instance_id)
    if old_id is None:
        return False
    if not group.has_room("", max_size) or not group.supports(request.protocol_type, request.protocols):
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
    record = generation_record(
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
    groups.timeouts.start_session(group.group_id, new.member_id, old.session_timeout_ms)


def _fence(groups: ClassicGroups, group: ClassicGroup, old: Member) -> None:
    """Invalidate the old member id, and answer its parked requests accordingly."""
    groups.timeouts.end_session(group.group_id, old.member_id)
    group.answer_join(old, JoinAnswer(old.member_id, ErrorCode.fenced_instance_id))
    old.answer_sync(SyncAnswer(ErrorCode.fenced_instance_id))
