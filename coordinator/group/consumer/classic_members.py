"""Members of the classic protocol in a consumer group, which looks to them like a group that rebalances cooperatively.

The parts of Kafka's `GroupMetadataManager` whose names end in `ToConsumerGroup`. Such a member uses its member epoch as
the generation. REBALANCE_IN_PROGRESS tells it to join in order to take its own next step, not to wait for others.
SyncGroup and Heartbeat write nothing, so nothing can fail, and they set timers at once.
"""

from __future__ import annotations

import structlog
from kio.schema.errors import ErrorCode

from coordinator.group.classic.members import (
    CONSUMER_PROTOCOL_TYPE,
    UNKNOWN_MEMBER_ID,
    HeartbeatRequest,
    JoinAnswer,
    JoinRequest,
    LeaveAnswer,
    LeaveRequest,
    MemberIdentity,
    SyncAnswer,
    SyncRequest,
)
from coordinator.group.consumer.group import ConsumerGroup, ConsumerMember
from coordinator.group.consumer.heartbeat import advance, record_member
from coordinator.group.consumer.migration import (
    by_topic_id,
    classic_metadata,
    downgrade_by,
    encoded_assignment,
    may_downgrade_by,
    remove,
)
from coordinator.group.modern.group import UNCHANGED, MemberState
from coordinator.group.modern.groups import ModernGroups
from coordinator.group.modern.heartbeat import (
    Change,
    assignment_is_due,
    check_not_fenced,
    check_room,
    joining_member,
    known_member,
)
from coordinator.runtime.outcome import Outcome
from protocol.consumer_protocol import SchemaError, deserialize_subscription
from protocol.coordinator_records.consumer_group_records import ClassicMemberMetadata
from protocol.errors import (
    IllegalGeneration,
    InconsistentGroupProtocol,
    KafkaError,
    RebalanceInProgress,
    UnknownMemberId,
    UnknownServerError,
)

logger = structlog.get_logger(__name__)


def join(groups: ModernGroups, group: ConsumerGroup, request: JoinRequest) -> Outcome[JoinAnswer]:
    """Handle a JoinGroup to a consumer group that has members. Raises KafkaErrors."""
    is_unknown = request.member_id == UNKNOWN_MEMBER_ID
    member_id = groups.new_member_id() if is_unknown else request.member_id
    check_room(group, member_id, request.group_instance_id, groups.consumer_config.max_size)
    if not _supports(group, request):
        raise InconsistentGroupProtocol
    if is_unknown and request.group_instance_id is None and request.member_id_required:
        return Outcome(reply=JoinAnswer(member_id, ErrorCode.member_id_required))
    change = Change()
    if is_unknown or request.group_instance_id is None:
        before = joining_member(group, member_id, request.group_instance_id, change, is_classic=True)
    else:
        before = known_member(group, member_id, request.group_instance_id)
    return _join(groups, group, before, request, change)


def _join(
    groups: ModernGroups, group: ConsumerGroup, before: ConsumerMember, request: JoinRequest, change: Change
) -> Outcome[JoinAnswer]:
    try:
        subscription = deserialize_subscription(request.protocols[0].metadata)
    except SchemaError as error:
        raise InconsistentGroupProtocol from error
    member = before._replace(
        instance_id=before.instance_id if request.group_instance_id is None else request.group_instance_id,
        rack_id=subscription.rack_id or before.rack_id,
        rebalance_timeout_ms=(
            before.rebalance_timeout_ms if request.rebalance_timeout_ms == UNCHANGED else request.rebalance_timeout_ms
        ),
        topics=frozenset(subscription.topics),
        client_id=request.client_id,
        client_host=request.client_host,
        classic=classic_metadata(request.session_timeout_ms, request.protocols),
    )
    timeout_ms = request.rebalance_timeout_ms
    bump = record_member(groups, group, before, member, change)
    owned = by_topic_id(subscription.owned, groups.topics)
    after = advance(groups, group, before, member, owned, bump, change)
    replaced = group.static_member(request.group_instance_id)
    if replaced is not None and may_downgrade_by(groups, group, replaced):
        downgrade_by(groups, group, replaced, after, change)
    else:
        change.after.append(lambda: groups.start_session(group, after))
        change.after.append(lambda: groups.timeouts.start_sync(group.group_id, after.member_id, timeout_ms))
    return change.outcome(
        JoinAnswer(
            after.member_id,
            generation=after.epoch,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol_name=request.protocols[0].name,
        )
    )


def _supports(group: ConsumerGroup, request: JoinRequest) -> bool:
    """Whether the member has a protocol that all members of the classic protocol know."""
    if request.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return False
    names = {protocol.name for protocol in request.protocols}
    for member in group.members.values():
        if member.classic is not None:
            names.intersection_update(name for name, _ in member.classic.protocols)
    return bool(names)


def sync(groups: ModernGroups, group: ConsumerGroup, request: SyncRequest) -> Outcome[SyncAnswer]:
    """Handle a SyncGroup: the answer is the member's own assignment, as there is no leader. Raises KafkaErrors."""
    member, classic = _member(group, request.member_id, request.group_instance_id, request.generation)
    name, metadata = classic.protocols[0]
    if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or request.protocol_name not in (None, name):
        raise InconsistentGroupProtocol
    if group.assignment_epoch > member.epoch and member.state is not MemberState.UNREVOKED:
        groups.timeouts.start_join(group.group_id, member.member_id, member.rebalance_timeout_ms)
        raise RebalanceInProgress
    try:
        assignment = encoded_assignment(member.assigned, metadata, groups.topics)
    except SchemaError as error:
        raise UnknownServerError from error
    groups.timeouts.end_sync(group.group_id, member.member_id)
    groups.start_session(group, member)
    return Outcome(reply=SyncAnswer(ErrorCode.none, assignment, request.protocol_type, request.protocol_name))


def heartbeat(groups: ModernGroups, group: ConsumerGroup, request: HeartbeatRequest) -> Outcome[ErrorCode]:
    """Answer REBALANCE_IN_PROGRESS if the member has a step to take; other refusals are raised."""
    member, classic = _member(group, request.member_id, request.group_instance_id, request.generation_id)
    groups.timeouts.start_session(group.group_id, member.member_id, classic.session_timeout_ms)
    may_get_more = member.state is MemberState.UNRELEASED and not group.waits_for_partitions(member)
    if (
        member.epoch >= group.assignment_epoch
        and member.state is not MemberState.UNREVOKED
        and not may_get_more
        and not _must_cause_an_assignment(groups, group)
    ):
        return Outcome(reply=ErrorCode.none)
    groups.timeouts.start_join(group.group_id, member.member_id, member.rebalance_timeout_ms)
    return Outcome(reply=ErrorCode.rebalance_in_progress)


def _must_cause_an_assignment(groups: ModernGroups, group: ConsumerGroup) -> bool:
    """Whether the group waits for a target assignment that only a classic member's JoinGroup can cause.

    That is so when the last member of the consumer protocol has left, and the group may not be downgraded. Kafka 4.4
    leaves that member's partitions without an owner until somebody joins for another reason.
    """
    return (
        group.epoch > group.assignment_epoch
        and all(member.is_classic for member in group.members.values())
        and assignment_is_due(groups, group)
    )


def _member(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> tuple[ConsumerMember, ClassicMemberMetadata]:
    """Raises UnknownMemberId, FencedInstanceId and IllegalGeneration."""
    member = known_member(group, member_id, instance_id)
    if member.classic is None:
        raise UnknownMemberId(f"Member {member_id} does not use the classic protocol.")
    if member.epoch != generation:
        raise IllegalGeneration
    return member, member.classic


def leave(groups: ModernGroups, group: ConsumerGroup, request: LeaveRequest) -> Outcome[LeaveAnswer]:
    """Remove members of either protocol, all the known ones in one operation."""
    found: dict[str, ConsumerMember] = {}
    codes: list[ErrorCode] = []
    for identity in request.members:
        try:
            member = _member_of(group, identity)
        except KafkaError as error:
            codes.append(error.code)
            continue
        codes.append(ErrorCode.none)
        found[member.member_id] = member
        logger.info(
            "member left the group",
            group=group.group_id,
            member=member.member_id,
            client_reason=identity.reason or "not provided",
        )
    return remove(groups, group, list(found.values())).outcome(tuple(codes))


def _member_of(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember:
    """The named member; an administrator may name only an instance."""
    instance_id = identity.group_instance_id
    if instance_id is None:
        return group.member(identity.member_id)
    member = group.static_member(instance_id)
    if member is None:
        raise UnknownMemberId
    if identity.member_id:
        check_not_fenced(member, identity.member_id, instance_id)
    return member
