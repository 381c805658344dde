"""A group of the classic protocol becomes a consumer group and back while its members stay (KIP-848).

How it works: `group.consumer.migration.policy` says whether a group may change. A running classic group is upgraded
when a member of the consumer protocol joins it: each member keeps its last assignment, at its generation. A consumer
group is downgraded when the last member of the consumer protocol leaves or is removed, or a classic member takes the
place of that one: the others keep their targets. Between the protocols a member's bytes are converted, and topic ids
and names.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from uuid import UUID

import structlog
from kio.schema.errors import ErrorCode

from coordinator.group.classic.group import ClassicGroup, GroupState, group_metadata
from coordinator.group.classic.members import (
    CONSUMER_PROTOCOL_TYPE,
    JoinAnswer,
    Member,
    MemberProtocol,
    SyncAnswer,
    choose_protocol,
    common_protocols,
)
from coordinator.group.consumer.group import NO_PARTITIONS, ConsumerGroup, ConsumerMember, epochs_of
from coordinator.group.modern import heartbeat as advance
from coordinator.group.modern.groups import ModernGroups
from coordinator.group.modern.heartbeat import Change
from coordinator.group.modern.topics import TopicsPort
from protocol.consumer_protocol import (
    SchemaError,
    deserialize_assignment,
    deserialize_subscription,
    deserialize_version,
    serialize_assignment,
)
from protocol.coordinator_records.consumer_group_records import ClassicMemberMetadata
from protocol.coordinator_records.group_records import GroupMetadataValue, MemberMetadata
from protocol.coordinator_records.record_schema import Partitions
from protocol.errors import GroupIdNotFound, UnknownServerError

logger = structlog.get_logger(__name__)

# -- upgrade


def upgrade(groups: ModernGroups, group_id: str, change: Change) -> ConsumerGroup:
    """The consumer group to join, converted or new.

    Raises GroupIdNotFound if the group must stay classic, and UnknownServerError where Kafka fails on its members.
    """
    before = groups.classic.by_id.get(group_id)
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
    change.records += group.creation()
    change.after.append(lambda: _upgraded(groups, group))
    return group


def _check_upgrade(groups: ModernGroups, group: ClassicGroup) -> None:
    if not groups.consumer_config.may_upgrade:
        raise _not_upgraded(group.group_id, "online upgrade is disabled.")
    if not group.uses_consumer_protocol:
        raise _not_upgraded(group.group_id, "the group does not use the consumer embedded protocol.")
    if len(group.members) > groups.consumer_config.max_size:
        raise _not_upgraded(group.group_id, "the group size exceeds the consumer group maximum size.")


def _converted(groups: ModernGroups, before: ClassicGroup) -> ConsumerGroup:
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
        group.metadata_hash = groups.hash_for(group, group.members.values())
    # else members wait for partitions: with another hash the group has a new epoch at once, and so a new target
    return group


def _converted_member(groups: ModernGroups, before: ClassicGroup, member: Member, protocol: str) -> ConsumerMember:
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


def _assigned(groups: ModernGroups, group_id: str, encoded: bytes) -> Partitions:
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


def _upgraded(groups: ModernGroups, group: ConsumerGroup) -> None:
    logger.info("converted the classic group to a consumer group", group=group.group_id)
    for member in group.members.values():
        groups.start_session(group, member)


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


# -- downgrade


def may_downgrade_by(groups: ModernGroups, group: ConsumerGroup, replaced: ConsumerMember) -> bool:
    """Whether the static member that a classic one replaces is the only one that speaks the consumer protocol."""
    if replaced.is_classic or not _may_be_classic(groups, len(group.members)):
        return False
    return all(member.is_classic for member in group.members.values() if member is not replaced)


def _may_be_classic(groups: ModernGroups, size: int) -> bool:
    return groups.consumer_config.may_downgrade and size <= groups.classic.config.max_size


def remove(groups: ModernGroups, group: ConsumerGroup, members: Collection[ConsumerMember]) -> Change:
    """Remove members; if only members of the classic protocol remain, the group becomes a classic one.

    Raises GroupIdNotFound if it cannot become one.
    """
    gone = {member.member_id for member in members}
    remaining = {key: member for key, member in group.members.items() if key not in gone}
    are_classic = all(member.is_classic for member in remaining.values())
    if not (gone and remaining and are_classic and _may_be_classic(groups, len(remaining))):
        return advance.remove(groups, group, members)
    change = Change()
    change.records += group.tombstones()
    _to_classic(groups, group, remaining, {key: group.target.get(key, NO_PARTITIONS) for key in remaining}, change)
    group_id = group.group_id
    change.after.append(
        lambda: groups.classic.rebalance(group_id, f"Downgrade group {group_id} from consumer to classic.")
    )
    return change


def downgrade_by(
    groups: ModernGroups, group: ConsumerGroup, replaced: ConsumerMember, joining: ConsumerMember, change: Change
) -> None:
    """Make the group a classic one, as the joining member replaces the last of the consumer protocol: no rebalance."""
    change.records += group.tombstones({replaced.member_id: joining.member_id})
    members = {key: other for key, other in group.members.items() if other is not replaced}
    targets = {key: group.target.get(key, NO_PARTITIONS) for key in members}
    targets[joining.member_id] = group.target.get(replaced.member_id, NO_PARTITIONS)
    _to_classic(groups, group, {**members, joining.member_id: joining}, targets, change)


def _to_classic(
    groups: ModernGroups,
    group: ConsumerGroup,
    members: Mapping[str, ConsumerMember],
    targets: Mapping[str, Partitions],
    change: Change,
) -> None:
    group_id = group.group_id
    protocols = {key: protocols_of(member) for key, member in members.items()}
    name = choose_protocol(protocols.values(), common_protocols(protocols.values()))
    try:
        saved = tuple(_saved(groups, members[key], name, targets[key]) for key in members)
    except SchemaError as error:
        logger.warning("group not downgraded", group=group_id, error=str(error))
        raise GroupIdNotFound(f"Cannot downgrade the classic group {group_id}: {error}.") from error
    now_ms = groups.context.clock.wall_ms()
    leader = next(iter(members))
    value = GroupMetadataValue(CONSUMER_PROTOCOL_TYPE, group.epoch, name, leader, now_ms, saved)
    change.records.append(group_metadata(group_id, value))
    gone = [*group.members]
    change.after.append(lambda: groups.timeouts.end_all(group_id, gone))
    change.after.append(lambda: groups.classic.take_over(group_id, protocols))
    logger.info("converting the consumer group to a classic group", group=group_id)


def _saved(groups: ModernGroups, member: ConsumerMember, protocol: str, target: Partitions) -> MemberMetadata:
    assert member.classic is not None, "only such members remain"
    metadata = dict(member.classic.protocols)[protocol]
    return MemberMetadata(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.classic.session_timeout_ms,
        metadata,
        encoded_assignment(target, metadata, groups.topics),
    )


# -- conversion


def by_topic_id(partitions: Sequence[tuple[str, Sequence[int]]], topics: TopicsPort) -> Partitions:
    """Partitions by topic names, without topics that do not exist."""
    found: dict[UUID, frozenset[int]] = {}
    for name, indexes in partitions:
        image = topics.by_name(name)
        if image is not None:
            found[image.id] = frozenset(indexes)
    return found


def encoded_assignment(partitions: Partitions, metadata: bytes, topics: TopicsPort) -> bytes:
    """The assignment as a classic member reads it, in the version of its own metadata. Raises SchemaError."""
    found = [(image.name, sorted(indexes)) for topic, indexes in partitions.items() if (image := topics.by_id(topic))]
    return serialize_assignment(deserialize_version(metadata), sorted(found))


def classic_metadata(session_timeout_ms: int, protocols: Sequence[MemberProtocol]) -> ClassicMemberMetadata:
    return ClassicMemberMetadata(
        session_timeout_ms, tuple((protocol.name, protocol.metadata) for protocol in protocols)
    )


def protocols_of(member: ConsumerMember) -> tuple[MemberProtocol, ...]:
    assert member.classic is not None, "asked of members of the classic protocol alone"
    return tuple(MemberProtocol(name, metadata) for name, metadata in member.classic.protocols)
