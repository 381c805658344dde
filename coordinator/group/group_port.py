"""What offsets and the admin APIs need to know about groups.

A group exists from its first GroupMetadata record, its first member, or its first committed offset, until its tombstone
is replayed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Sized
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol
from uuid import UUID

from coordinator.runtime.outcome import CoordinatorRecord, Position
from protocol.coordinator_records.group_records import GroupMetadataValue
from protocol.coordinator_records.record_schema import GroupKey


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member as DescribeGroups reports it; protocol metadata and assignment are empty unless the group is Stable."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group as DescribeGroups reports it."""

    state: str
    protocol_type: str
    protocol: str
    members: Sequence[MemberDescription]


class GroupType(Enum):
    """Which protocol the group speaks; the value is the name on the wire (Kafka's Group.GroupType)."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


class OwnedPartition(NamedTuple):
    """A partition whose offset is to be committed; the topic id is None where it is not known."""

    topic: str
    topic_id: UUID | None
    partition: int


"""A partition by the id of its topic, None if that is not known."""


class Group(Protocol):
    """One group."""

    group_id: str
    group_type: GroupType

    @property
    def state_name(self) -> str:
        """The state, as spelled in the answers of ListGroups and of the APIs that describe groups."""

    @property
    def protocol_type(self) -> str | None:
        """The type that its members give; None for a group that only holds commits of simple consumers."""

    @property
    def members(self) -> Sized: ...

    @property
    def is_empty(self) -> bool:
        """Whether the state is Empty."""

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
        """Raises the error if the commit of these partitions is not allowed (Kafka's Group.validateOffsetCommit)."""

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Raises the error if reading offsets is not allowed (Kafka's Group.validateOffsetFetch)."""

    def offset_commit_accepted(self, member_id: str) -> None:
        """Soft state: a commit keeps the member's session alive where Kafka lets it (Stable, PreparingRebalance)."""

    def validate_offset_delete(self) -> None:
        """Raises GroupNotEmpty or GroupIdNotFound."""

    def validate_delete(self) -> None:
        """Raises GroupNotEmpty or GroupIdNotFound."""

    def is_subscribed_to_topic(self, topic: str) -> bool:
        """Whether any member subscribes to the topic; True while a group with members has unknown subscriptions."""

    def offset_expires_from(self, commit_timestamp_ms: int) -> int | None:
        """When offsets.retention.minutes starts for an offset committed at that time; None: not yet."""


class Groups(Protocol):
    """The groups of one shard, which `coordinator/group/group_coordinator_shard.py` combines with the offsets."""

    def replay(self, key: GroupKey, value: GroupMetadataValue | None, position: Position) -> None:
        """Apply a GroupMetadata record to durable state."""

    def loaded(self) -> None:
        """Everything is replayed: sessions of the members found may start."""

    def unloaded(self) -> None:
        """The shard is unloaded; nothing is called after this."""

    def find(self, group_id: str) -> Group | None: ...

    def all(self) -> Iterable[Group]: ...

    def note_simple(self, group_id: str) -> None:
        """Make an unknown group an Empty one without a type: durable state, called by replay of an offset commit."""

    def deletion(self, group_id: str) -> Sequence[CoordinatorRecord]:
        """The tombstone(s) that end a group."""
