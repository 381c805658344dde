"""A consumer group: its durable state, which only the replay of records changes, and what is derived from it.

How it works: three numbers drive a group, and each is raised by a record.

1. The group epoch rises when members, subscriptions or topics change (`advance.py`). The group is Assigning. 2. The
target assignment is computed for that epoch, and the assignment epoch becomes equal to it (`target.py`); this is done
at a heartbeat, and at most once in `group.consumer.assignment.interval.ms`. The group is Reconciling. 3. Each member,
at its own heartbeats, goes to the target in steps (`reconciliation.py`): it gives up what is no longer its own, says
so, and then gets what others have given up. When all are there, the group is Stable.

No partition has two owners at any moment: a member gets a partition only when no other member has it, or must still
give it up (`is_free`). A member that does not answer in time is removed (`timeouts.py`), which frees its partitions and
raises the group epoch. All of this is durable. Soft are only the timers, which begin anew after a restart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from coordinator.group.classic.messages import CONSUMER_PROTOCOL_TYPE
from coordinator.group.consumer.assignment import NO_PARTITIONS, Partitions
from coordinator.group.consumer.member import ConsumerMember
from coordinator.group.consumer.regex import ResolvedRegex
from coordinator.group.consumer.states import ConsumerGroupState
from coordinator.group.group_port import GroupType, OwnedPartition
from protocol.consumer_protocol import NO_GENERATION
from protocol.errors import (
    GroupNotEmpty,
    IllegalGeneration,
    KafkaError,
    StaleMemberEpoch,
    UnknownMemberId,
    UnknownServerError,
    UnsupportedVersion,
)

INITIAL_EPOCH = 1
"""That of a group before anybody subscribes to a topic by its name, which raises it."""


class ConsumerGroup:
    """Kafka's `ConsumerGroup`.

    `epoch` is the group's, `assignment_epoch` the one that `target` was made for, at `assigned_ms` (0 if that is not
    known, or does not matter since there were no members); `target` and `members` are by member
    id, in order of arrival. `owners` is the target by partition. `metadata_hash` stands for the topics that the target
    was made from.
    `is_fresh` is soft state: no topic behind the hash has changed since it was computed.
    """

    __slots__ = (
        "_partition_epochs",
        "_subscribed_regexes",
        "_subscribed_topics",
        "assigned_ms",
        "assignment_epoch",
        "epoch",
        "group_id",
        "has_subscription_metadata",
        "is_fresh",
        "members",
        "metadata_hash",
        "owners",
        "resolved",
        "static_ids",
        "target",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = INITIAL_EPOCH
        self.assignment_epoch = 0
        self.assigned_ms = 0
        self.metadata_hash = 0
        self.members: dict[str, ConsumerMember] = {}
        self.static_ids: dict[str, str] = {}
        """Member ids by instance id."""
        self.target: dict[str, Partitions] = {}
        self.owners: dict[UUID, dict[int, str]] = {}
        self.resolved: dict[str, ResolvedRegex] = {}
        self.has_subscription_metadata = False
        """Whether Kafka 4.0 left a record of the topics, which a tombstone must remove."""
        self.is_fresh = False
        self._partition_epochs: dict[UUID, dict[int, int]] = {}
        self._subscribed_topics: frozenset[str] | None = None
        self._subscribed_regexes: dict[str, int] = {}

    # -- derived

    @property
    def state(self) -> ConsumerGroupState:
        """The state, derived from the epochs and the members (Kafka's `ConsumerGroup.maybeUpdateGroupState`)."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def subscribed_topics(self) -> frozenset[str]:
        """The topics that members subscribe to by name or regular expression, whether they exist or not."""
        if self._subscribed_topics is None:
            self._subscribed_topics = frozenset().union(
                *(member.topics for member in self.members.values()),
                *(found.topics for found in self.resolved.values()),
            )
        return self._subscribed_topics

    @property
    def subscribed_regexes(self) -> Mapping[str, int]:
        """Number of subscribers of each regular expression that has any, in the order in which they got the first."""
        return self._subscribed_regexes

    def member(self, member_id: str) -> ConsumerMember:
        """Raises UnknownMemberId."""
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberId(f"Member {member_id} is not a member of group {self.group_id}.")
        return member

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        member_id = self.static_ids.get(instance_id) if instance_id is not None else None
        return None if member_id is None else self.member(member_id)

    def target_of(self, member: ConsumerMember) -> Partitions:
        """The member's target; a static member that replaces another takes over its target."""
        owner = member.member_id if member.instance_id is None else self.static_ids.get(member.instance_id, "")
        return self.target.get(owner, NO_PARTITIONS)

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

    # -- for offsets and the admin APIs (`group_port.Group`)

    group_type = GroupType.CONSUMER
    protocol_type = CONSUMER_PROTOCOL_TYPE

    def validate_offset_commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        generation: int,
        *,
        transactional: bool,
        knows_member_epochs: bool,
        partitions: Iterable[OwnedPartition] = (),
    ) -> None:
        """A transactional commit may name no member; in an empty group anyone may commit without an epoch.

        An epoch before the member's is good for partitions that it has, or still has to give up, since that epoch or
        an earlier one (KIP-1251): the commit may have been on its way while the epoch rose.
        """
        if generation < 0 and self.is_empty:
            return
        if transactional and generation == NO_GENERATION and not member_id and group_instance_id is None:
            return
        member = self.member(member_id)
        if not transactional and not member.is_classic and not knows_member_epochs:
            raise UnsupportedVersion(
                "OffsetCommit version 9 or above must be used by members using the modern group protocol"
            )
        if generation > member.epoch or not all(
            generation == member.epoch or _has_since(member, partition, generation) for partition in partitions
        ):
            raise _wrong_epoch(member)

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Admin clients, and those that know no member epochs, name no member."""
        if member_id is not None:
            _check_epoch(self.member(member_id), member_epoch)
        elif member_epoch >= 0:
            raise UnknownServerError  # as in Kafka, which fails here

    def offset_commit_accepted(self, member_id: str) -> None:
        """Do nothing: only heartbeats are signs of life."""

    def validate_offset_delete(self) -> None:
        """Refuse nothing: offsets of any topic that the group does not subscribe to may be deleted."""

    def validate_delete(self) -> None:
        if not self.is_empty:
            raise GroupNotEmpty

    def is_subscribed_to_topic(self, topic: str) -> bool:
        return topic in self.subscribed_topics

    def offset_expires_from(self, commit_timestamp_ms: int) -> int | None:
        """The commit's own time: retention counts from it. Only called for topics without subscribers."""
        return commit_timestamp_ms

    # -- replay

    def put_member(self, member: ConsumerMember) -> None:
        """Add a new or changed member."""
        before = self.members.get(member.member_id)
        self._release(before)
        self._count_regexes(before, member)
        self.members[member.member_id] = member
        for owned in (member.assigned, member.pending_revocation):
            for topic, partitions in owned.items():
                self._partition_epochs.setdefault(topic, {}).update(dict.fromkeys(partitions, member.epoch))
        if before is not None and before.instance_id != member.instance_id:
            self._forget_instance(before)
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member.member_id
        self._subscribed_topics = None

    def remove_member(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        self._release(member)
        self._count_regexes(member, None)
        if member is not None:
            self._forget_instance(member)
        self._subscribed_topics = None

    def _forget_instance(self, member: ConsumerMember) -> None:
        """The member's instance id is no longer its own; another member may have it already."""
        if member.instance_id is not None and self.static_ids.get(member.instance_id) == member.member_id:
            del self.static_ids[member.instance_id]

    def _count_regexes(self, before: ConsumerMember | None, after: ConsumerMember | None) -> None:
        old, new = before and before.regex, after and after.regex
        if old == new:
            return
        counts = self._subscribed_regexes
        if old:
            counts[old] -= 1
            if not counts[old]:
                del counts[old]
        if new:
            counts[new] = counts.get(new, 0) + 1

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

    def set_target(self, member_id: str, partitions: Partitions) -> None:
        self._remove_owner(member_id, partitions)
        for topic, indexes in partitions.items():
            self.owners.setdefault(topic, {}).update(dict.fromkeys(indexes, member_id))
        self.target[member_id] = partitions

    def remove_target(self, member_id: str) -> None:
        self._remove_owner(member_id, NO_PARTITIONS)
        self.target.pop(member_id, None)

    def _remove_owner(self, member_id: str, but: Partitions) -> None:
        """Remove the member as owner. A partition that has already been given to another member stays with that one."""
        for topic, indexes in self.target.get(member_id, NO_PARTITIONS).items():
            owners = self.owners.get(topic, {})
            for index in indexes - but.get(topic, frozenset()):
                if owners.get(index) == member_id:
                    del owners[index]
            if not owners:
                self.owners.pop(topic, None)

    def set_resolved(self, regex: str, resolved: ResolvedRegex | None) -> None:
        """Set what an expression matches; None if no member subscribes to it any more."""
        if resolved is None:
            self.resolved.pop(regex, None)
        else:
            self.resolved[regex] = resolved
        self._subscribed_topics = None


def _check_epoch(member: ConsumerMember, epoch: int) -> None:
    if epoch != member.epoch:
        raise _wrong_epoch(member)


def _has_since(member: ConsumerMember, partition: OwnedPartition, epoch: int) -> bool:
    topic_id = partition.topic_id
    got = None if topic_id is None else member.epochs.get(topic_id, {}).get(partition.partition)
    return got is not None and got <= epoch


def _wrong_epoch(member: ConsumerMember) -> KafkaError:
    return IllegalGeneration() if member.is_classic else StaleMemberEpoch()
