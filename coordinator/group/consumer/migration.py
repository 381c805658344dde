"""The migration of a running group between the classic and the consumer protocol (KIP-848).

When a member of the consumer protocol joins a classic group, it becomes a consumer group; when the last such member has
left, it becomes a classic group again. `group.consumer.migration.policy` says which of the two may happen.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

import structlog
from kio.schema.errors import ErrorCode

from coordinator.group.classic.messages import JoinAnswer, SyncAnswer
from coordinator.group.classic.protocols import choose_protocol, common_protocols
from coordinator.group.classic.records import group_metadata
from coordinator.group.classic.subscription import CONSUMER_PROTOCOL_TYPE
from coordinator.group.consumer.assignment import NO_PARTITIONS, Partitions
from coordinator.group.consumer.embedded import by_topic_id, classic_metadata, encoded_assignment, protocols_of
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.member import ConsumerMember
from coordinator.group.consumer.records import group_creation, group_tombstones
from protocol.consumer_protocol import (
    ImpossibleLengthError,
    SchemaError,
    deserialize_assignment,
    deserialize_subscription,
)
from protocol.errors import GroupIdNotFound, KafkaError, UnknownServerError
from protocol.internal.group_records import GroupMetadataValue, MemberMetadata
from protocol.java_collections import in_java_order

if TYPE_CHECKING:
    from coordinator.group.classic.group import ClassicGroup
    from coordinator.group.classic.groups import ClassicGroups
    from coordinator.group.classic.member import Member
    from coordinator.group.consumer.change import Change
    from coordinator.group.consumer.groups import ConsumerGroups

logger = structlog.get_logger(__name__)


class Migration:
    """Converts one shard's groups from one kind to the other."""

    def __init__(self, groups: ConsumerGroups, classic: ClassicGroups) -> None:
        self._groups = groups
        self._classic = classic

    def group_not_found(self, group_id: str, what: str = "Group") -> KafkaError:
        """The error for a missing consumer group; `what` is Kafka's word for the group that does not exist."""
        if self._classic.find(group_id) is not None:
            return GroupIdNotFound(f"Group {group_id} is not a consumer group.")
        return GroupIdNotFound(f"{what} {group_id} not found.")

    # -- to a consumer group

    def upgrade(self, group_id: str, change: Change) -> ConsumerGroup:
        """The consumer group to join, converted or new.

        Raises GroupIdNotFound if the group must stay classic, and UnknownServerError where Kafka fails on its members.
        """
        before = self._classic.find(group_id)
        if before is None:
            return ConsumerGroup(group_id)
        if before.is_empty:
            change.records.append(group_metadata(group_id, None))
            return ConsumerGroup(group_id)
        self._check_upgrade(before)
        _send_back(before)
        try:
            group = self._converted(before)
        except ImpossibleLengthError as error:
            logger.warning("group not upgraded", group=group_id, error=str(error))
            raise UnknownServerError from error
        except SchemaError as error:
            logger.warning("group not upgraded", group=group_id, error=str(error))
            raise _not_upgraded(group_id, "the embedded consumer protocol is malformed.") from error
        change.records.append(group_metadata(group_id, None))
        change.records += group_creation(group)
        change.after.append(lambda: self._upgraded(group))
        return group

    def _check_upgrade(self, group: ClassicGroup) -> None:
        if not self._groups.config.may_upgrade:
            raise _not_upgraded(group.group_id, "online upgrade is disabled.")
        if not group.uses_consumer_protocol:
            raise _not_upgraded(group.group_id, "the group does not use the consumer embedded protocol.")
        if len(group.members) > self._groups.config.max_size:
            raise _not_upgraded(group.group_id, "the group size exceeds the consumer group maximum size.")

    def _converted(self, before: ClassicGroup) -> ConsumerGroup:
        """The converted group: every member has its last assignment, at its generation.

        Members are taken in the order of the hash map of Kafka's `ClassicGroup`: it determines their order in the new
        group, and so the assignors' results.
        """
        group = ConsumerGroup(before.group_id)
        group.epoch = group.assignment_epoch = before.generation
        name = _protocol_of_all(before) if before.members else ""
        for member in before.in_order():
            converted = self._converted_member(before, member, name)
            if any(not group.is_free(topic, index) for topic, found in converted.assigned.items() for index in found):
                raise UnknownServerError  # Kafka fails too if an assignor gave a partition to two members
            group.set_target(converted.member_id, converted.assigned)
            group.put_member(converted)
        group.metadata_hash = self._groups.metadata_hash(group.subscribed_topics)
        return group

    def _converted_member(self, before: ClassicGroup, member: Member, protocol: str) -> ConsumerMember:
        subscription = deserialize_subscription(member.metadata(protocol))
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
            assigned=self._assigned(before.group_id, member.assignment),
            classic=classic_metadata(member.session_timeout_ms, member.protocols),
        )

    def _assigned(self, group_id: str, encoded: bytes) -> Partitions:
        if not encoded:  # it has joined and has not synced
            return NO_PARTITIONS
        assignment = deserialize_assignment(encoded)
        if assignment.user_data:
            raise _not_upgraded(
                group_id,
                "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default "
                "assignor before re-attempting the upgrade.",
            )
        return by_topic_id(assignment.partitions, self._groups.topics)

    def _upgraded(self, group: ConsumerGroup) -> None:
        logger.info("converted the classic group to a consumer group", group=group.group_id)
        for member in group.members.values():
            self._groups.timeouts.start_session(group.group_id, member)

    # -- to a classic group

    def may_downgrade(self, group: ConsumerGroup, leaving: Collection[ConsumerMember]) -> bool:
        """Whether these leave only members of the classic protocol behind, and the group may become classic."""
        gone = {member.member_id for member in leaving}
        remaining = [member for member in group.members.values() if member.member_id not in gone]
        return (
            bool(remaining) and all(member.is_classic for member in remaining) and self._may_be_classic(len(remaining))
        )

    def may_downgrade_by(self, group: ConsumerGroup, replaced: ConsumerMember) -> bool:
        """Whether the static member that a classic one replaces is the only one that speaks the consumer protocol."""
        if replaced.is_classic or not self._may_be_classic(len(group.members)):
            return False
        return all(member.is_classic for member in group.members.values() if member is not replaced)

    def _may_be_classic(self, size: int) -> bool:
        return self._groups.config.may_downgrade and size <= self._classic.config.max_size

    def downgrade(self, group: ConsumerGroup, leaving: Collection[ConsumerMember], change: Change) -> None:
        """Make the rest of the group a classic one, which rebalances. Raises GroupIdNotFound if that is impossible."""
        gone = {member.member_id for member in leaving}
        members = {one.member_id: one for one in group.members_in_order() if one.member_id not in gone}
        change.records += group_tombstones(group)
        self._to_classic(group, members, {key: group.target.get(key, NO_PARTITIONS) for key in members}, change)
        group_id = group.group_id
        change.after.append(
            lambda: self._classic.rebalance(group_id, f"Downgrade group {group_id} from consumer to classic.")
        )

    def downgrade_by(
        self, group: ConsumerGroup, replaced: ConsumerMember, joining: ConsumerMember, change: Change
    ) -> None:
        """As `downgrade`, when the joining member replaces the last of the consumer protocol: no rebalance."""
        change.records += group_tombstones(group, {replaced.member_id: joining.member_id})
        members = {one.member_id: one for one in group.members_in_order() if one is not replaced}
        targets = {key: group.target.get(key, NO_PARTITIONS) for key in members}
        targets[joining.member_id] = group.target.get(replaced.member_id, NO_PARTITIONS)
        self._to_classic(group, {**members, joining.member_id: joining}, targets, change)

    def _to_classic(
        self,
        group: ConsumerGroup,
        members: Mapping[str, ConsumerMember],
        targets: Mapping[str, Partitions],
        change: Change,
    ) -> None:
        group_id = group.group_id
        protocols = {key: protocols_of(member) for key, member in members.items()}
        name = choose_protocol(protocols.values(), common_protocols(protocols.values()))
        try:
            saved = tuple(self._saved(members[key], name, targets[key]) for key in in_java_order(members))
        except SchemaError as error:
            logger.warning("group not downgraded", group=group_id, error=str(error))
            raise GroupIdNotFound(f"Cannot downgrade the classic group {group_id}: {error}.") from error
        now_ms = self._groups.shard.clock.wall_ms()
        leader = next(iter(members))
        value = GroupMetadataValue(CONSUMER_PROTOCOL_TYPE, group.epoch, name, leader, now_ms, saved)
        change.records.append(group_metadata(group_id, value))
        gone = [*group.members]
        change.after.append(lambda: self._groups.timeouts.end_all(group_id, gone))
        change.after.append(lambda: self._classic.take_over(group_id, protocols))
        logger.info("converting the consumer group to a classic group", group=group_id)

    def _saved(self, member: ConsumerMember, protocol: str, target: Partitions) -> MemberMetadata:
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
            encoded_assignment(target, metadata, self._groups.topics),
        )


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
