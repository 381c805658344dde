"""Keys and values of the records that groups of the consumer rebalance protocol write (KIP-848)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple
from uuid import UUID

Partitions = Mapping[UUID, frozenset[int]]
"""Partition indexes by topic id."""

AssignmentEpochs = Mapping[UUID, Mapping[int, int]]
"""The epoch at which a member got each of its partitions, by topic id and partition index."""


class ConsumerGroupMetadataKey(NamedTuple):
    """The group that the record belongs to."""

    group: str


class ConsumerGroupMetadataValue(NamedTuple):
    """The group's epoch, and the hash of the topics it was computed from (0 for none, or as Kafka 4.0 wrote it)."""

    epoch: int
    metadata_hash: int = 0


class ConsumerGroupPartitionMetadataKey(NamedTuple):
    """The group that the record belongs to."""

    group: str


class ConsumerGroupPartitionMetadataValue(NamedTuple):
    """What the group's topics looked like to Kafka 4.0; nothing reads it, so it stays encoded."""

    encoded: bytes


class ConsumerGroupMemberMetadataKey(NamedTuple):
    """The group and the member that the record belongs to."""

    group: str
    member_id: str


class ClassicMemberMetadata(NamedTuple):
    """A classic-protocol member's description of itself; `protocols` are (name, metadata)."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


class ConsumerGroupMemberMetadataValue(NamedTuple):
    """A member's description of itself; `classic` is None for a member that uses the consumer protocol."""

    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str | None
    rebalance_timeout_ms: int
    server_assignor: str | None
    classic: ClassicMemberMetadata | None = None


class ConsumerGroupTargetAssignmentMetadataKey(NamedTuple):
    """The group that the record belongs to."""

    group: str


class ConsumerGroupTargetAssignmentMetadataValue(NamedTuple):
    """The group epoch that the target assignment was computed for, and when, in ms; 0 if that is not known."""

    assignment_epoch: int
    assigned_ms: int = 0


class ConsumerGroupTargetAssignmentMemberKey(NamedTuple):
    """The group and the member that the record belongs to."""

    group: str
    member_id: str


class ConsumerGroupTargetAssignmentMemberValue(NamedTuple):
    """The partitions that the member is to own once reconciled."""

    partitions: Partitions


class ConsumerGroupCurrentMemberAssignmentKey(NamedTuple):
    """The group and the member that the record belongs to."""

    group: str
    member_id: str


class ConsumerGroupCurrentMemberAssignmentValue(NamedTuple):
    """How far a member has come; `state` is the number of Kafka's MemberState.

    `epochs` are those of the partitions in both `assigned` and `pending_revocation`; Kafka 4.1 wrote none.
    """

    member_epoch: int
    previous_member_epoch: int
    state: int
    assigned: Partitions
    pending_revocation: Partitions
    epochs: AssignmentEpochs = MappingProxyType({})


class ConsumerGroupRegularExpressionKey(NamedTuple):
    """The group and the regular expression that the record belongs to."""

    group: str
    regex: str


class ConsumerGroupRegularExpressionValue(NamedTuple):
    """The topics that matched at `timestamp` (ms), when the metadata was at `version`."""

    topics: tuple[str, ...]
    version: int
    timestamp: int
