"""A consumer group (KIP-848) and its members: durable state, which only the replay of records changes.

No partition has two owners at any moment: a member gets a partition only when no other member has it, or must still
give it up (`is_free`). A member that does not answer in time is removed, which frees its partitions and raises the
group epoch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from coordinator.group.classic.members import CONSUMER_PROTOCOL_TYPE
from coordinator.group.kinds import GroupType, ModernGroupConfig, OwnedPartition
from coordinator.group.modern.group import JOINING, LEFT, LEFT_FOR_A_WHILE, MemberState, ModernGroup, RecordTypes
from coordinator.runtime.outcome import CoordinatorRecord
from protocol.coordinator_records import consumer_group_records as schemas
from protocol.coordinator_records.consumer_group_records import (
    AssignmentEpochs,
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupRegularExpressionValue,
)
from protocol.coordinator_records.record_schema import MemberKey, Partitions, RecordSchema
from protocol.errors import IllegalGeneration, KafkaError

NO_PARTITIONS: Partitions = {}
"""A topic's set is empty only where a classic member's share of it was."""

NO_EPOCHS: AssignmentEpochs = {}


def epochs_of(partitions: Partitions, epoch: int) -> dict[UUID, dict[int, int]]:
    """One epoch for all (KIP-1251)."""
    return {topic: dict.fromkeys(indexes, epoch) for topic, indexes in partitions.items()}


class ResolvedRegex(NamedTuple):
    """The topics that matched (Kafka's `ResolvedRegularExpression`).

    `version` is that of the topics when they were matched; `timestamp_ms` is of the wall clock.
    """

    topics: frozenset[str]
    version: int
    timestamp_ms: int


class ConsumerMember(NamedTuple):  # cheaper to change than a frozen dataclass
    """Kafka's `ConsumerGroupMember`, with the same defaults. All of it is durable.

    `epoch` is LEFT_FOR_A_WHILE for a static member that is expected back. `assigned` is what the member may use now,
    `pending_revocation` what it must give up; `epochs` says since which epoch it has each of them. `classic` is set if
    it speaks the classic protocol; then it takes its epoch for the generation. The timeout is in ms.
    """

    member_id: str
    epoch: int = JOINING
    previous_epoch: int = -1
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    regex: str | None = ""
    assignor: str | None = None
    state: MemberState = MemberState.STABLE
    assigned: Partitions = NO_PARTITIONS
    pending_revocation: Partitions = NO_PARTITIONS
    epochs: AssignmentEpochs = NO_EPOCHS
    classic: ClassicMemberMetadata | None = None

    @property
    def is_classic(self) -> bool:
        return self.classic is not None

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == epoch

    def away(self) -> ConsumerMember:
        """The static member once it has left for a while: nothing that it commits late counts as of before."""
        return self._replace(
            epoch=LEFT_FOR_A_WHILE, pending_revocation=NO_PARTITIONS, epochs=epochs_of(self.assigned, 0)
        )

    # -- records

    def metadata_value(self) -> ConsumerGroupMemberMetadataValue:
        return ConsumerGroupMemberMetadataValue(
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=tuple(sorted(self.topics)),
            subscribed_topic_regex=self.regex,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            server_assignor=self.assignor,
            classic=self.classic,
        )

    def with_metadata(self, value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
        return self._replace(
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=frozenset(value.subscribed_topic_names),
            regex=value.subscribed_topic_regex,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            assignor=value.server_assignor,
            classic=value.classic,
        )

    def assignment_value(self) -> ConsumerGroupCurrentMemberAssignmentValue:
        return ConsumerGroupCurrentMemberAssignmentValue(
            self.epoch, self.previous_epoch, self.state, self.assigned, self.pending_revocation, self.epochs
        )

    def with_assignment(self, value: ConsumerGroupCurrentMemberAssignmentValue) -> ConsumerMember:
        return self._replace(
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState(value.state),
            assigned=value.assigned,
            pending_revocation=value.pending_revocation,
            epochs=value.epochs or _at_one_epoch(value),
        )

    def without_assignment(self) -> ConsumerMember:
        return ConsumerMember(self.member_id, LEFT, LEFT).with_metadata(self.metadata_value())


def _at_one_epoch(value: ConsumerGroupCurrentMemberAssignmentValue) -> AssignmentEpochs:
    """For records of Kafka 4.1, which tell no epochs: the member's, as Kafka 4.4 reads them."""
    epochs = epochs_of(value.assigned, value.member_epoch)
    for topic, given in epochs_of(value.pending_revocation, value.member_epoch).items():
        epochs.setdefault(topic, {}).update(given)
    return epochs


def subscription(member: ConsumerMember, resolved: Mapping[str, ResolvedRegex]) -> frozenset[str]:
    """The names of the topics that the member subscribes to, by name and by expression."""
    matched = resolved.get(member.regex) if member.regex else None
    return member.topics if matched is None else member.topics | matched.topics


def preferred_assignor(members: Iterable[ConsumerMember], assignors: Sequence[str]) -> str:
    """The one of `assignors` that most of the members ask for; in a tie, or if nobody asks for one, the first."""
    votes = Counter(member.assignor for member in members)
    return max(assignors, key=lambda name: votes[name])


class ConsumerGroup(ModernGroup[ConsumerMember, Partitions]):
    """Kafka's `ConsumerGroup`. `owners` is the target by partition, `resolved` are the topics of each expression."""

    group_type = GroupType.CONSUMER
    protocol_type = CONSUMER_PROTOCOL_TYPE
    types = RecordTypes(
        schemas.CONSUMER_GROUP_METADATA,
        schemas.CONSUMER_GROUP_MEMBER_METADATA,
        schemas.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA,
        schemas.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER,
        schemas.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
        schemas.ConsumerGroupTargetAssignmentMetadataValue,
        (schemas.CONSUMER_GROUP_PARTITION_METADATA,),
    )
    new_member = ConsumerMember
    nothing = NO_PARTITIONS

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.assignment_epoch = 0
        self.owners: dict[UUID, dict[int, str]] = {}
        self.resolved: dict[str, ResolvedRegex] = {}
        self.has_subscription_metadata = False
        """Whether Kafka 4.0 left a record of the topics, which a tombstone must remove."""
        self.subscribed_regexes: Counter[str] = Counter()
        """Number of subscribers of each expression that has any, in the order in which they got the first."""
        self._partition_epochs: dict[UUID, dict[int, int]] = {}
        self._subscribed_topics: frozenset[str] | None = None

    # -- derived

    def preferred_assignor(self, assignors: Sequence[str]) -> str:
        return preferred_assignor(self.members.values(), assignors)

    @property
    def subscribed_topics(self) -> frozenset[str]:
        """The topics that members subscribe to by name or regular expression, whether they exist or not."""
        if self._subscribed_topics is None:
            self._subscribed_topics = frozenset().union(
                *(member.topics for member in self.members.values()),
                *(found.topics for found in self.resolved.values()),
            )
        return self._subscribed_topics

    def subscription(self, member: ConsumerMember) -> frozenset[str]:
        """By name and by expression."""
        return subscription(member, self.resolved)

    def is_subscribed_to_topic(self, topic: str) -> bool:
        return topic in self.subscribed_topics

    def is_free(self, topic: UUID, partition: int) -> bool:
        """Whether no member owns the partition, or still has to give it up."""
        return partition not in self._partition_epochs.get(topic, ())

    def waits_for_partitions(self, member: ConsumerMember) -> bool:
        """Whether others still own part of the member's target."""
        return any(
            partition not in member.assigned.get(topic, ()) and not self.is_free(topic, partition)
            for topic, partitions in self.target.get(member.member_id, NO_PARTITIONS).items()
            for partition in partitions
        )

    def session_timeout_of(self, member: ConsumerMember, config: ModernGroupConfig) -> int:
        if member.classic is None:
            return config.session_timeout_of(self.group_id)
        return member.classic.session_timeout_ms

    def held_since(self, member: ConsumerMember, partition: OwnedPartition) -> int | None:
        topic_id = partition.topic_id
        return None if topic_id is None else member.epochs.get(topic_id, {}).get(partition.partition)

    def wrong_epoch(self, member: ConsumerMember, epoch: int) -> KafkaError:
        return IllegalGeneration() if member.is_classic else super().wrong_epoch(member, epoch)

    # -- records

    def metadata_value(self, epoch: int, metadata_hash: int) -> schemas.ConsumerGroupMetadataValue:
        return schemas.ConsumerGroupMetadataValue(epoch, metadata_hash)

    def target_record(self, member_id: str, assignment: Partitions) -> CoordinatorRecord:
        value: Any = schemas.ConsumerGroupTargetAssignmentMemberValue(assignment)
        return super().target_record(member_id, value)

    def regex_record(self, expression: str, resolved: ResolvedRegex | None) -> CoordinatorRecord:
        """The topics that an expression matches; a tombstone if `resolved` is None."""
        key = schemas.ConsumerGroupRegularExpressionKey(self.group_id, expression)
        value = None
        if resolved is not None:
            value = ConsumerGroupRegularExpressionValue(
                tuple(sorted(resolved.topics)), resolved.version, resolved.timestamp_ms
            )
        return CoordinatorRecord(schemas.CONSUMER_GROUP_REGULAR_EXPRESSION, key, value)

    def tombstones_besides(self, remaining: Mapping[str, ConsumerMember]) -> Iterable[CoordinatorRecord]:
        """Those of the expressions that none of the members has."""
        used = {member.regex for member in remaining.values()}
        return [self.regex_record(regex, None) for regex in self.resolved if regex not in used]

    def creation(self) -> Sequence[CoordinatorRecord]:
        """The records that create the group as it is, after its conversion from a classic one."""
        members = list(self.members.values())
        return (
            *map(self.member_record, members),
            self.epoch_record(self.epoch, self.metadata_hash),
            *(self.target_record(member.member_id, self.target[member.member_id]) for member in members),
            self.target_epoch_record(self.assignment_epoch, self.assigned_ms),
            *map(self.assignment_record, members),
        )

    # -- replay

    @classmethod
    def replays(cls) -> Sequence[tuple[RecordSchema[Any, Any], Callable[[Any, Any, Any], None]]]:
        return (
            *super().replays(),
            (schemas.CONSUMER_GROUP_PARTITION_METADATA, cls.replay_subscription_metadata),
            (schemas.CONSUMER_GROUP_REGULAR_EXPRESSION, cls.replay_regex),
        )

    def replay_subscription_metadata(self, _: Any, value: Any) -> None:
        self.has_subscription_metadata = value is not None

    def replay_regex(self, key: Any, value: ConsumerGroupRegularExpressionValue | None) -> None:
        """Set what an expression matches; a tombstone if no member subscribes to it any more."""
        if value is None:
            self.resolved.pop(key.regex, None)
        else:
            self.resolved[key.regex] = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
        self._subscribed_topics = None

    def replay_target(self, key: MemberKey, value: schemas.ConsumerGroupTargetAssignmentMemberValue | None) -> None:
        self.set_target(key.member_id, None if value is None else value.partitions)

    def put_member(self, member: ConsumerMember) -> None:
        before = self.members.get(member.member_id)
        self._release(before)
        super().put_member(member)
        self._count_regexes(before, member)
        for owned in (member.assigned, member.pending_revocation):
            for topic, partitions in owned.items():
                self._partition_epochs.setdefault(topic, {}).update(dict.fromkeys(partitions, member.epoch))
        self._subscribed_topics = None

    def remove_member(self, member_id: str) -> ConsumerMember | None:
        member = super().remove_member(member_id)
        self._release(member)
        self._count_regexes(member, None)
        self._subscribed_topics = None
        return member

    def _count_regexes(self, before: ConsumerMember | None, after: ConsumerMember | None) -> None:
        old, new = before and before.regex, after and after.regex
        if old == new:
            return
        counts = self.subscribed_regexes
        if old:
            counts[old] -= 1
            if not counts[old]:
                del counts[old]
        if new:
            counts[new] += 1

    def _release(self, member: ConsumerMember | None) -> None:
        """Release what the member owns at its epoch. The rest is others': compaction may remove the steps between."""
        if member is None:
            return
        for owned in (member.assigned, member.pending_revocation):
            for topic, partitions in owned.items():
                epochs = self._partition_epochs.get(topic, {})
                for partition in partitions:
                    if epochs.get(partition) == member.epoch:
                        del epochs[partition]
                if not epochs:
                    self._partition_epochs.pop(topic, None)

    def set_target(self, member_id: str, partitions: Partitions | None) -> None:
        """None: the member has no target any more. A partition that was given to another member stays with that one."""
        after = NO_PARTITIONS if partitions is None else partitions
        for topic, indexes in self.target.get(member_id, NO_PARTITIONS).items():
            owners = self.owners.get(topic, {})
            for index in indexes - after.get(topic, frozenset()):
                if owners.get(index) == member_id:
                    del owners[index]
            if not owners:
                self.owners.pop(topic, None)
        for topic, indexes in after.items():
            self.owners.setdefault(topic, {}).update(dict.fromkeys(indexes, member_id))
        if partitions is None:
            self.target.pop(member_id, None)
        else:
            self.target[member_id] = partitions
