"""A share group (KIP-932): its durable state, which only the replay of records changes, and what is derived from it.

| state  | when                 |
|--------|----------------------|
| Empty  | there are no members |
| Stable | there are members    |
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from coordinator.group.kinds import GroupType
from coordinator.group.modern.group import JOINING, LEFT, MemberState, ModernGroup, RecordTypes
from coordinator.group.modern.topics import TopicsPort
from protocol.coordinator_records import share_records as schemas
from protocol.coordinator_records.record_schema import Partitions, RecordSchema
from protocol.coordinator_records.share_records import (
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataValue,
    TopicPartitions,
)
from protocol.errors import GroupIdNotFound

NO_PARTITIONS: Partitions = {}
NO_STATE = ShareGroupStatePartitionMetadataValue({}, {}, {})


class ShareMember(NamedTuple):
    """A member; `topics` are the names that it subscribes to. Share groups have no use for the last three."""

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    epoch: int = JOINING
    previous_epoch: int = -1
    assigned: Partitions = NO_PARTITIONS
    instance_id: str | None = None
    rebalance_timeout_ms: int = 0
    state: MemberState = MemberState.STABLE

    @property
    def is_classic(self) -> bool:
        return False

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.epoch == epoch

    def metadata_value(self) -> ShareGroupMemberMetadataValue:
        return ShareGroupMemberMetadataValue(self.rack_id, self.client_id, self.client_host, self.topics)

    def with_metadata(self, value: ShareGroupMemberMetadataValue) -> ShareMember:
        rack_id, client_id, client_host, topics = value
        return self._replace(rack_id=rack_id, client_id=client_id, client_host=client_host, topics=topics)

    def assignment_value(self) -> ShareGroupCurrentMemberAssignmentValue:
        return ShareGroupCurrentMemberAssignmentValue(self.epoch, self.previous_epoch, self.assigned)

    def with_assignment(self, value: ShareGroupCurrentMemberAssignmentValue) -> ShareMember:
        epoch, previous, assigned = value
        return self._replace(epoch=epoch, previous_epoch=previous, assigned=assigned)

    def without_assignment(self) -> ShareMember:
        return self._replace(epoch=LEFT, previous_epoch=LEFT, assigned=NO_PARTITIONS)


class ShareGroup(ModernGroup[ShareMember, Partitions]):
    """Kafka's `ShareGroup`. `state` says for which partitions the share coordinator has a state.

    Soft: `initializing_until_ms`, when a request to the share coordinator counts as lost.
    """

    group_type = GroupType.SHARE
    protocol_type = "share"
    state_names = ("Empty", "Stable", "Dead")
    lives_until_deleted = True
    types = RecordTypes(
        schemas.SHARE_GROUP_METADATA,
        schemas.SHARE_GROUP_MEMBER_METADATA,
        schemas.SHARE_GROUP_TARGET_ASSIGNMENT_METADATA,
        schemas.SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER,
        schemas.SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT,
        schemas.ShareGroupTargetAssignmentMetadataValue,
        (schemas.SHARE_GROUP_STATE_PARTITION_METADATA,),
    )
    new_member = ShareMember
    nothing = NO_PARTITIONS

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.state = NO_STATE
        self.initializing_until_ms = 0.0
        self._existing: dict[str, tuple[tuple[str, ...], int, frozenset[str]]] = {}

    def existing(self, members: Collection[ShareMember], topics: TopicsPort) -> dict[str, frozenset[str]]:
        """The topics of each member that exist, or did when the last topic was created.

        A member may name tens of thousands: they are looked up when it names others, or when a topic was created.
        """
        newest, known = topics.newest, self._existing
        self._existing = {}
        for member in members:
            found = known.get(member.member_id)
            if found is None or found[0] is not member.topics or found[1] != newest:
                there = frozenset(name for name in member.topics if topics.by_name(name) is not None)
                found = member.topics, newest, there
            self._existing[member.member_id] = found
        return {member_id: found[2] for member_id, found in self._existing.items()}

    @property
    def state_name(self) -> str:
        return "Stable" if self.members else "Empty"

    def subscription(self, member: ShareMember) -> frozenset[str]:
        return frozenset(member.topics)

    def topics_of(self, members: Collection[ShareMember], topics: TopicsPort) -> frozenset[str]:
        """The topics of these members, without those that never existed."""
        return frozenset[str]().union(*self.existing(members, topics).values())

    def is_subscribed_to_topic(self, topic: str) -> bool:
        return any(topic in member.topics for member in self.members.values())

    def metadata_value(self, epoch: int, metadata_hash: int) -> ShareGroupMetadataValue:
        return ShareGroupMetadataValue(epoch, metadata_hash)

    def emptied_ms(self, now_ms: int) -> int:
        return now_ms

    def states(self) -> Iterator[tuple[UUID, TopicPartitions]]:
        """The topics that the share coordinator has, or may have, a state of."""
        for topic_id in {**self.state.initializing, **self.state.initialized}:
            parts = self.state.initializing.get(topic_id), self.state.initialized.get(topic_id)
            known = [part for part in parts if part is not None]
            yield topic_id, TopicPartitions(known[0].name, frozenset().union(*(part.partitions for part in known)))

    # -- for offsets and the admin APIs: a share group commits no offsets

    def validate_offset_commit(self, *_: Any, **__: Any) -> None:
        raise GroupIdNotFound(f"Group {self.group_id} is a share group, which commits no offsets.")

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """There are none, whoever asks: as in Kafka that is no error."""

    def validate_offset_delete(self) -> None:
        raise GroupIdNotFound(f"Group {self.group_id} is a share group, which commits no offsets.")

    def offset_expires_from(self, commit_timestamp_ms: int) -> int | None:
        return None

    # -- replay

    @classmethod
    def replays(cls) -> Sequence[tuple[RecordSchema[Any, Any], Callable[[Any, Any, Any], None]]]:
        return *super().replays(), (schemas.SHARE_GROUP_STATE_PARTITION_METADATA, cls.replay_state)

    def replay_state(self, _: Any, value: ShareGroupStatePartitionMetadataValue | None) -> None:
        self.state = NO_STATE if value is None else value
        self.is_fresh = False
