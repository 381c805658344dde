"""The records of share groups (KIP-932): of `__consumer_offsets`, and of `__share_group_state`.

The latter are a snapshot of a share partition, and updates of it since. Each type has one version.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
from typing import Annotated, Any, NamedTuple
from uuid import UUID

from ..declared import Int8, Int16, Int32, Int64, Placed, Stored, String, Uuid, plain
from .record_schema import GroupKey, Int32Set, MemberKey, Partitions, RecordSchema

STABLE = 0
"""The state of every member: a share group's member goes to its target at once."""
SHARE_SNAPSHOT_ID = 0
SHARE_UPDATE_ID = 1
UNKNOWN_COUNT = -1
NO_START_OFFSET = -1

# -- of the group


class ShareGroupMetadataValue(NamedTuple):
    """The group's epoch, and the hash of the topics that it was computed from."""

    epoch: Int32
    metadata_hash: Int64


class ShareGroupMemberMetadataValue(NamedTuple):
    """A member's description of itself."""

    rack_id: String | None
    client_id: String
    client_host: String
    subscribed_topic_names: tuple[String, ...]


class ShareGroupTargetAssignmentMetadataValue(NamedTuple):
    """The epoch that the target was made for, and when; 0 if that is not known."""

    assignment_epoch: Int32
    assigned_ms: Annotated[Int64, Placed(tag=0, absent=0)]


class ShareGroupCurrentMemberAssignmentValue(NamedTuple):
    """The present assignment of a member."""

    member_epoch: int
    previous_member_epoch: int
    assigned: Partitions


class _CurrentAssignment(NamedTuple):
    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned: Partitions


class _Target(NamedTuple):
    assigned: Partitions


class TopicPartitions(NamedTuple):
    """A topic's name, and partitions of it."""

    name: str
    partitions: frozenset[int]


@plain
class _Topic(NamedTuple):
    topic_id: Uuid
    name: String
    partitions: Int32Set


@plain
class _DeletedTopic(NamedTuple):
    topic_id: Uuid
    name: String


def _load_topics(stored: tuple[_Topic, ...]) -> dict[UUID, TopicPartitions]:
    return {topic_id: TopicPartitions(name, partitions) for topic_id, name, partitions in stored}


def _dump_topics(topics: Mapping[UUID, TopicPartitions]) -> list[tuple[Any, ...]]:
    return [(topic_id, *topic) for topic_id, topic in topics.items()]


_Topics = Annotated[Mapping[UUID, TopicPartitions], Stored(tuple[_Topic, ...], _load_topics, _dump_topics)]


class ShareGroupStatePartitionMetadataValue(NamedTuple):
    """How far the share coordinator has the state of topics, by id. `deleting` has names."""

    initializing: _Topics
    initialized: _Topics
    deleting: Annotated[Mapping[UUID, str], Stored(tuple[_DeletedTopic, ...], dict, Mapping.items)]


SHARE_GROUP_MEMBER_METADATA = RecordSchema("ShareGroupMemberMetadata", (10,), MemberKey, ShareGroupMemberMetadataValue)
SHARE_GROUP_METADATA = RecordSchema("ShareGroupMetadata", (11,), GroupKey, ShareGroupMetadataValue)
SHARE_GROUP_TARGET_ASSIGNMENT_METADATA = RecordSchema(
    "ShareGroupTargetAssignmentMetadata", (12,), GroupKey, ShareGroupTargetAssignmentMetadataValue
)
SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER: RecordSchema[MemberKey, Partitions] = RecordSchema(
    "ShareGroupTargetAssignmentMember",
    (13,),
    MemberKey,
    Stored(_Target, itemgetter(0), lambda partitions: (partitions,)),
)
SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT: RecordSchema[MemberKey, ShareGroupCurrentMemberAssignmentValue] = RecordSchema(
    "ShareGroupCurrentMemberAssignment",
    (14,),
    MemberKey,
    Stored(
        _CurrentAssignment,
        lambda stored: ShareGroupCurrentMemberAssignmentValue(stored[0], stored[1], stored[3]),
        lambda value: (value[0], value[1], STABLE, value[2]),
    ),
)
SHARE_GROUP_STATE_PARTITION_METADATA = RecordSchema(
    "ShareGroupStatePartitionMetadata", (15,), GroupKey, ShareGroupStatePartitionMetadataValue
)

# -- of the share partition


class SharePartitionKey(NamedTuple):
    """A partition as a share group sees it."""

    group_id: String
    topic_id: Uuid
    partition: Int32


class StateBatch(NamedTuple):
    """Offsets `first` to `last`, both inclusive, in one state.

    States: 0 available, 2 acknowledged, 3 archiving, 4 archived.
    """

    first: Int64
    last: Int64
    state: Int8
    delivery_count: Int16


class ShareSnapshotValue(NamedTuple):
    """All that is known of a share partition. Times are milliseconds.

    `complete_count` is the number of offsets from the start offset on whose delivery is complete; -1 if not known.
    """

    snapshot_epoch: Int32
    state_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    created_ms: Int64
    written_ms: Int64
    batches: tuple[StateBatch, ...]
    complete_count: Annotated[Int32, Placed(tag=0)] = UNKNOWN_COUNT


class ShareUpdateValue(NamedTuple):
    """Changes since the snapshot; `start_offset` is -1 if that has not."""

    snapshot_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    batches: tuple[StateBatch, ...]
    complete_count: Annotated[Int32, Placed(tag=0)] = UNKNOWN_COUNT


SHARE_SNAPSHOT = RecordSchema("ShareSnapshot", (SHARE_SNAPSHOT_ID,), SharePartitionKey, ShareSnapshotValue)
SHARE_UPDATE = RecordSchema("ShareUpdate", (SHARE_UPDATE_ID,), SharePartitionKey, ShareUpdateValue)
