"""The records of `__consumer_offsets` that groups of the consumer rebalance protocol write (KIP-848).

Each type has one version. Kafka 4.4 no longer writes ConsumerGroupPartitionMetadata; it only deletes the records that
4.0 left behind (KIP-1101).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple
from uuid import UUID

from ..declared import Bytes, Int8, Int32, Int64, Placed, Stored, String, Uuid, plain
from .record_schema import GroupKey, MemberKey, Partitions, RecordSchema

AssignmentEpochs = Mapping[UUID, Mapping[int, int]]
"""The epoch at which a member got each of its partitions, by topic id and partition index."""


class ConsumerGroupMetadataValue(NamedTuple):
    """The group's epoch, and the hash of the topics it was computed from (0 for none, or as Kafka 4.0 wrote it)."""

    epoch: Int32
    metadata_hash: Annotated[Int64, Placed(tag=0)] = 0


class PartitionRacks(NamedTuple):
    """A partition, and the racks of its replicas."""

    partition: Int32
    racks: tuple[String, ...]


class TopicMetadata(NamedTuple):
    """A topic as Kafka 4.0 saw it."""

    topic_id: Uuid
    topic_name: String
    num_partitions: Int32
    partition_metadata: tuple[PartitionRacks, ...]


class ConsumerGroupPartitionMetadataValue(NamedTuple):
    """The group's topics as Kafka 4.0 wrote them; nothing here reads it."""

    topics: tuple[TopicMetadata, ...]


@plain
class _Protocol(NamedTuple):
    name: String
    metadata: Bytes


class ClassicMemberMetadata(NamedTuple):
    """A classic-protocol member's description of itself; `protocols` are (name, metadata)."""

    session_timeout_ms: Int32
    protocols: Annotated[tuple[tuple[str, bytes], ...], Stored(tuple[_Protocol, ...])]


class ConsumerGroupMemberMetadataValue(NamedTuple):
    """A member's description of itself; `classic` is None for a member that uses the consumer protocol.

    Null is written, an empty struct is not, since that is the default, whatever Kafka's schema says.
    """

    instance_id: String | None
    rack_id: String | None
    client_id: String
    client_host: String
    subscribed_topic_names: tuple[String, ...]
    subscribed_topic_regex: String | None
    rebalance_timeout_ms: Int32
    server_assignor: String | None
    classic: Annotated[ClassicMemberMetadata | None, Placed(tag=0, absent=ClassicMemberMetadata(0, ()))] = None


class ConsumerGroupTargetAssignmentMetadataValue(NamedTuple):
    """The group epoch that the target assignment was computed for, and when, in ms; 0 if that is not known."""

    assignment_epoch: Int32
    assigned_ms: Annotated[Int64, Placed(tag=0)] = 0


class ConsumerGroupTargetAssignmentMemberValue(NamedTuple):
    """The partitions that the member is to own once reconciled."""

    partitions: Partitions


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

    group: String
    regex: String


class ConsumerGroupRegularExpressionValue(NamedTuple):
    """The topics that matched at `timestamp` (ms), when the metadata was at `version`."""

    topics: tuple[String, ...]
    version: Int64
    timestamp: Int64


class _AssignedTopic(NamedTuple):
    """A topic's partitions, and the epoch of each."""

    topic_id: Uuid
    partitions: tuple[Int32, ...]
    epochs: Annotated[tuple[Int32, ...] | None, Placed(tag=0)] = None


class _CurrentAssignment(NamedTuple):
    """A current assignment as it is on the wire."""

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned: tuple[_AssignedTopic, ...]
    pending_revocation: tuple[_AssignedTopic, ...]


def _load_assignment(stored: _CurrentAssignment) -> ConsumerGroupCurrentMemberAssignmentValue:
    epochs: dict[UUID, dict[int, int]] = {}
    for topic in (*stored.assigned, *stored.pending_revocation):
        if topic.epochs is not None:
            epochs.setdefault(topic.topic_id, {}).update(zip(topic.partitions, topic.epochs, strict=True))
    assigned, pending = (
        {topic.topic_id: frozenset(topic.partitions) for topic in topics}
        for topics in (stored.assigned, stored.pending_revocation)
    )
    return ConsumerGroupCurrentMemberAssignmentValue(*stored[:3], assigned, pending, epochs)


def _dump_assignment(value: ConsumerGroupCurrentMemberAssignmentValue) -> _CurrentAssignment:
    def topics(partitions: Partitions) -> Iterator[_AssignedTopic]:
        for topic_id, indexes in partitions.items():
            ordered, epochs = tuple(sorted(indexes)), value.epochs.get(topic_id)
            yield _AssignedTopic(
                topic_id, ordered, None if epochs is None else tuple(epochs[index] for index in ordered)
            )

    return _CurrentAssignment(*value[:3], tuple(topics(value.assigned)), tuple(topics(value.pending_revocation)))


CONSUMER_GROUP_METADATA = RecordSchema("ConsumerGroupMetadata", (3,), GroupKey, ConsumerGroupMetadataValue)
CONSUMER_GROUP_PARTITION_METADATA = RecordSchema(
    "ConsumerGroupPartitionMetadata", (4,), GroupKey, ConsumerGroupPartitionMetadataValue
)
CONSUMER_GROUP_MEMBER_METADATA = RecordSchema(
    "ConsumerGroupMemberMetadata", (5,), MemberKey, ConsumerGroupMemberMetadataValue
)
CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA = RecordSchema(
    "ConsumerGroupTargetAssignmentMetadata", (6,), GroupKey, ConsumerGroupTargetAssignmentMetadataValue
)
CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER = RecordSchema(
    "ConsumerGroupTargetAssignmentMember", (7,), MemberKey, ConsumerGroupTargetAssignmentMemberValue
)
CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: RecordSchema[MemberKey, ConsumerGroupCurrentMemberAssignmentValue] = (
    RecordSchema(
        "ConsumerGroupCurrentMemberAssignment",
        (8,),
        MemberKey,
        Stored(_CurrentAssignment, _load_assignment, _dump_assignment),
    )
)
CONSUMER_GROUP_REGULAR_EXPRESSION = RecordSchema(
    "ConsumerGroupRegularExpression", (16,), ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue
)
CONSUMER_GROUP_SCHEMAS: tuple[RecordSchema[Any, Any], ...] = (
    CONSUMER_GROUP_METADATA,
    CONSUMER_GROUP_PARTITION_METADATA,
    CONSUMER_GROUP_MEMBER_METADATA,
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA,
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER,
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    CONSUMER_GROUP_REGULAR_EXPRESSION,
)
