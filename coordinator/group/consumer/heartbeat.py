"""ConsumerGroupHeartbeat (Kafka's `GroupMetadataManager.consumerGroupHeartbeat`)."""

from __future__ import annotations

import structlog

from coordinator.group.consumer.advance import advance, record_member
from coordinator.group.consumer.change import Change
from coordinator.group.consumer.config import ConsumerGroupConfig
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.groups import ConsumerGroups
from coordinator.group.consumer.leave import leave
from coordinator.group.consumer.member import JOINING, LEFT, LEFT_FOR_A_WHILE, ConsumerMember
from coordinator.group.consumer.membership import check_epoch, check_room, static_member
from coordinator.group.consumer.messages import UNCHANGED, ConsumerHeartbeat, ConsumerHeartbeatAnswer
from coordinator.group.consumer.regexes import update_regexes
from coordinator.group.consumer.upgrade import upgrade
from coordinator.runtime.outcome import Outcome
from protocol.errors import InvalidRequest, UnsupportedAssignor
from protocol.java_strings import java_trim

logger = structlog.get_logger(__name__)


def check_request(request: ConsumerHeartbeat, config: ConsumerGroupConfig) -> None:
    """Raises InvalidRequest or UnsupportedAssignor if the request is wrong in itself."""
    if request.names_itself or request.member_epoch > 0 or request.member_epoch == LEFT:
        _check_text(request.member_id, "MemberId")
    _check_text(request.group_id, "GroupId")
    if request.instance_id is not None:
        _check_text(request.instance_id, "InstanceId")
    if request.rack_id is not None:
        _check_text(request.rack_id, "RackId")
    if request.member_epoch == JOINING:
        if request.rebalance_timeout_ms == UNCHANGED:
            raise InvalidRequest("RebalanceTimeoutMs must be provided in first request.")
        if request.owned is None or request.owned:
            raise InvalidRequest("TopicPartitions must be empty when (re-)joining.")
        if request.topics is None and request.regex is None:
            raise InvalidRequest(
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
            )
    elif request.member_epoch == LEFT_FOR_A_WHILE:
        if request.instance_id is None:
            raise InvalidRequest("InstanceId can't be null.")
    elif request.member_epoch < LEFT_FOR_A_WHILE:
        raise InvalidRequest("MemberEpoch is invalid.")
    if request.assignor is not None and request.assignor not in config.assignors:
        raise UnsupportedAssignor(
            f"ServerAssignor {request.assignor} is not supported. Supported assignors: {', '.join(config.assignors)}."
        )


def _check_text(text: str, name: str) -> None:
    if not java_trim(text):
        raise InvalidRequest(f"{name} can't be empty.")


def heartbeat(groups: ConsumerGroups, request: ConsumerHeartbeat) -> Outcome[ConsumerHeartbeatAnswer]:
    """Handle a request that passes `check_request`. Raises KafkaErrors."""
    if request.member_epoch < JOINING:
        return leave(groups, request)
    unchanged = unchanged_member(groups, request)
    if unchanged is None:
        return heartbeat_of_any(groups, request)
    groups.timeouts.start_session(request.group_id, unchanged)
    interval_ms = groups.config.heartbeat_interval_of(request.group_id)
    return Outcome(reply=ConsumerHeartbeatAnswer(unchanged.member_id, unchanged.epoch, interval_ms))


def unchanged_member(groups: ConsumerGroups, request: ConsumerHeartbeat) -> ConsumerMember | None:
    """The member if this is only a sign of life, as most heartbeats are: then it just prolongs the session."""
    group = groups.find(request.group_id)
    if group is None or not group.is_fresh or group.epoch > group.assignment_epoch or group.subscribed_regexes:
        return None
    member = group.members.get(request.member_id)
    if member is None or request.member_epoch != member.epoch or not member.is_reconciled_to(group.assignment_epoch):
        return None
    return member if request.owned is None and _updated(member, request) is member else None


def heartbeat_of_any(groups: ConsumerGroups, request: ConsumerHeartbeat) -> Outcome[ConsumerHeartbeatAnswer]:
    """Handle any heartbeat of a member that joins or stays. Raises KafkaErrors."""
    joins = request.member_epoch == JOINING
    change = Change()
    group = groups.find(request.group_id)
    if group is None:
        if not joins:
            raise groups.not_found(request.group_id, "Consumer group")
        group = upgrade(groups, request.group_id, change)
    check_room(group, request.member_id, request.instance_id, groups.config.max_size)
    before = _member(groups, group, request, joins, change)
    member = _updated(before, request)
    bump = record_member(groups, group, before, member, change)
    bump |= update_regexes(groups, group, before, member, change, request.may_describe)
    after = advance(groups, group, before, member, request.owned, bump, change)
    change.after.append(lambda: groups.timeouts.start_session(request.group_id, after))
    tells = joins or request.is_full or after.assigned != before.assigned
    return change.outcome(
        ConsumerHeartbeatAnswer(
            after.member_id,
            after.epoch,
            groups.config.heartbeat_interval_of(request.group_id),
            after.assigned if tells else None,
        )
    )


def _member(
    groups: ConsumerGroups, group: ConsumerGroup, request: ConsumerHeartbeat, joins: bool, change: Change
) -> ConsumerMember:
    """The member before the request; a new one has no assignment. A joining static member may give any epoch."""
    member_id = request.member_id or groups.new_member_id()
    if request.instance_id is not None:
        known = static_member(group, member_id, request.instance_id, joins, change, is_classic=False)
    else:
        known = group.members.get(member_id, ConsumerMember(member_id)) if joins else group.member(member_id)
        if joins:
            logger.info("member joined the consumer group", group=group.group_id, member=member_id, protocol="consumer")
    if request.instance_id is None or not joins:
        check_epoch(known, request.member_epoch, request.owned)
    return known


def _updated(member: ConsumerMember, request: ConsumerHeartbeat) -> ConsumerMember:
    """The member with what it says about itself. Whoever sends this request speaks the consumer protocol."""
    same_client = member.client_id == request.client_id and member.client_host == request.client_host
    if request.tells_nothing and same_client and member.classic is None:
        return member
    return member._replace(
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=(
            member.rebalance_timeout_ms if request.rebalance_timeout_ms == UNCHANGED else request.rebalance_timeout_ms
        ),
        assignor=member.assignor if request.assignor is None else request.assignor,
        topics=member.topics if request.topics is None else frozenset(request.topics),
        regex=member.regex if request.regex is None else request.regex,
        client_id=request.client_id,
        client_host=request.client_host,
        classic=None,
    )
