"""A share group: its durable state, which only the replay of records changes, and what is derived from it.

| state  | when                 |
|--------|----------------------|
| Empty  | there are no members |
| Stable | there are members    |
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple
from uuid import UUID

from coordinator.group.consumer.topics_port import TopicsPort
from coordinator.group.group_port import GroupType, OwnedPartition
from protocol.coordinator_records.record_schema import Partitions
from protocol.coordinator_records.share_records import ShareGroupStatePartitionMetadataValue, TopicPartitions
from protocol.errors import GroupIdNotFound, GroupNotEmpty, UnknownMemberId

PROTOCOL_TYPE = "share"
FIRST_EPOCH = 1
NO_PARTITIONS: Partitions = {}
NO_STATE = ShareGroupStatePartitionMetadataValue({}, {}, {})


class ShareMember(NamedTuple):
    """A member; `topics` are the names that it subscribes to."""

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    epoch: int = 0
    previous_epoch: int = -1
    assigned: Partitions = NO_PARTITIONS


class ShareGroup:
    """Kafka's `ShareGroup`.

    `epoch` is the group's, `assignment_epoch` the one that `target` was made for, at `assigned_ms`. `state` says for
    which partitions the share coordinator has a state. Soft: `is_fresh`, nothing that the target is made from has
    changed since it was looked at; `initializing_until_ms`, when a request to the share coordinator counts as lost.
    """

    group_type = GroupType.SHARE
    protocol_type = PROTOCOL_TYPE

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.assignment_epoch = FIRST_EPOCH
        self.assigned_ms = 0
        self.metadata_hash = 0
        self.members: dict[str, ShareMember] = {}
        self.target: dict[str, Partitions] = {}
        self.state = NO_STATE
        self.is_fresh = False
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

    @property
    def is_empty(self) -> bool:
        return not self.members

    def member(self, member_id: str) -> ShareMember:
        """Raises UnknownMemberId."""
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberId(f"Member {member_id} is not a member of group {self.group_id}.")
        return member

    def initialized(self) -> Mapping[UUID, TopicPartitions]:
        """The partitions that may be assigned."""
        return self.state.initialized

    def states(self) -> Iterator[tuple[UUID, TopicPartitions]]:
        """The topics that the share coordinator has, or may have, a state of."""
        for topic_id in {**self.state.initializing, **self.state.initialized}:
            parts = self.state.initializing.get(topic_id), self.state.initialized.get(topic_id)
            found = [part for part in parts if part is not None]
            yield topic_id, TopicPartitions(found[0].name, frozenset().union(*(part.partitions for part in found)))

    # -- for offsets and the admin APIs (`group_port.Group`): a share group commits no offsets

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
        raise GroupIdNotFound(f"Group {self.group_id} is a share group, which commits no offsets.")

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """There are none, whoever asks: as in Kafka that is no error."""

    def offset_commit_accepted(self, member_id: str) -> None:
        """There are none."""

    def validate_offset_delete(self) -> None:
        raise GroupIdNotFound(f"Group {self.group_id} is a share group, which commits no offsets.")

    def validate_delete(self) -> None:
        if self.members:
            raise GroupNotEmpty

    def is_subscribed_to_topic(self, topic: str) -> bool:
        return any(topic in member.topics for member in self.members.values())

    def offset_expires_from(self, commit_timestamp_ms: int) -> int | None:
        return None
