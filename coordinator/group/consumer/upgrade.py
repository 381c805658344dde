"""A running classic group becomes a consumer group when a member of the consumer protocol joins it (KIP-848).

`group.consumer.migration.policy` says whether it may. `downgrade` is the way back.
"""

from __future__ import annotations

import structlog
from kio.schema.errors import ErrorCode

from coordinator.group.classic.group import ClassicGroup, group_metadata
from coordinator.group.classic.members import Member
from coordinator.group.classic.messages import JoinAnswer, SyncAnswer, common_protocols
from coordinator.group.classic.states import GroupState
from coordinator.group.consumer.assignment import NO_PARTITIONS, Partitions, epochs_of
from coordinator.group.consumer.change import Change
from coordinator.group.consumer.embedded import by_topic_id, classic_metadata
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.groups import ConsumerGroups
from coordinator.group.consumer.member import ConsumerMember
from coordinator.group.consumer.records import group_creation
from protocol.consumer_protocol import (
    SchemaError,
    deserialize_assignment,
    deserialize_subscription,
)
from protocol.errors import GroupIdNotFound, UnknownServerError

logger = structlog.get_logger(__name__)


def upgrade(groups: ConsumerGroups, group_id: str, change: Change) -> ConsumerGroup:
    """The consumer group to join, converted or new.

    Raises GroupIdNotFound if the group must stay classic, and UnknownServerError where Kafka fails on its members.
    """
    before = groups.classic.find(group_id)
    if before is None:
        return ConsumerGroup(group_id)
    if before.is_empty:
        change.records.append(group_metadata(group_id, None))
        return ConsumerGroup(group_id)
    _check_upgrade(groups, before)
    _send_back(before)
    try:
        group = _converted(groups, before)
    except SchemaError as error:
        logger.warning("group not upgraded", group=group_id, error=str(error))
        raise _not_upgraded(group_id, "the embedded consumer protocol is malformed.") from error
    change.records.append(group_metadata(group_id, None))
    change.records += group_creation(group)
    change.after.append(lambda: _upgraded(groups, group))
    return group


def _check_upgrade(groups: ConsumerGroups, group: ClassicGroup) -> None:
    if not groups.config.may_upgrade:
        raise _not_upgraded(group.group_id, "online upgrade is disabled.")
    if not group.uses_consumer_protocol:
        raise _not_upgraded(group.group_id, "the group does not use the consumer embedded protocol.")
    if len(group.members) > groups.config.max_size:
        raise _not_upgraded(group.group_id, "the group size exceeds the consumer group maximum size.")


def _converted(groups: ConsumerGroups, before: ClassicGroup) -> ConsumerGroup:
    """The converted group: every member has its last assignment, at its generation."""
    group = ConsumerGroup(before.group_id)
    group.epoch = group.assignment_epoch = before.generation
    name = _protocol_of_all(before) if before.members else ""
    for member in before.members.values():
        converted = _converted_member(groups, before, member, name)
        if any(not group.is_free(topic, index) for topic, found in converted.assigned.items() for index in found):
            raise UnknownServerError  # Kafka fails too if an assignor gave a partition to two members
        group.set_target(converted.member_id, converted.assigned)
        group.put_member(converted)
    if before.state is GroupState.STABLE:
        group.metadata_hash = groups.metadata_hash(group.subscribed_topics)
    # else members wait for partitions: with another hash the group has a new epoch at once, and so a new target
    return group


def _converted_member(groups: ConsumerGroups, before: ClassicGroup, member: Member, protocol: str) -> ConsumerMember:
    subscription = deserialize_subscription(member.metadata(protocol))
    assigned = _assigned(groups, before.group_id, member.assignment)
    return ConsumerMember(
        member.member_id,
        epoch=before.generation,
        previous_epoch=before.generation,
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=frozenset(subscription.topics),
        assigned=assigned,
        epochs=epochs_of(assigned, before.generation),
        classic=classic_metadata(member.session_timeout_ms, member.protocols),
    )


def _assigned(groups: ConsumerGroups, group_id: str, encoded: bytes) -> Partitions:
    if not encoded:  # it has joined and has not synced
        return NO_PARTITIONS
    assignment = deserialize_assignment(encoded)
    if assignment.user_data:
        raise _not_upgraded(
            group_id,
            "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default "
            "assignor before re-attempting the upgrade.",
        )
    return by_topic_id(assignment.partitions, groups.topics)


def _upgraded(groups: ConsumerGroups, group: ConsumerGroup) -> None:
    logger.info("converted the classic group to a consumer group", group=group.group_id)
    for member in group.members.values():
        groups.timeouts.start_session(group.group_id, member)


def _send_back(group: ClassicGroup) -> None:
    """Make members that wait for the group's rebalance join again, even if the group then stays as it is."""
    for member in group.members.values():
        group.answer_join(member, JoinAnswer(member.member_id, ErrorCode.rebalance_in_progress))
        member.answer_sync(SyncAnswer(ErrorCode.rebalance_in_progress))


def _protocol_of_all(group: ClassicGroup) -> str:
    """The group's protocol; if there is none, or not all members support it now, the one they would choose."""
    common = common_protocols(member.protocols for member in group.members.values())
    if group.protocol_name is not None and group.protocol_name in common:
        return group.protocol_name
    return group.choose_protocol()


def _not_upgraded(group_id: str, why: str) -> GroupIdNotFound:
    return GroupIdNotFound(f"Cannot upgrade classic group {group_id} to consumer group because {why}")
