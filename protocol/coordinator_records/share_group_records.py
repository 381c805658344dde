"""The records of `__consumer_offsets` that share groups write (KIP-932). Each type has one version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from uuid import UUID

from ..primitives import INT8, INT32, INT64
from . import fields
from .consumer_group_values import Partitions
from .fields import NO_TAGS, FieldReader
from .group_fields import (
    VERSION_0,
    key_encoder,
    one_part,
    partitions,
    read_partitions,
    strings,
    two_parts,
    value_reader,
)
from .record_schema import RecordSchema

_TIMESTAMP_TAG = 0
STABLE = 0
"""The state of every member: a share group's member goes to its target at once."""


class ShareGroupKey(NamedTuple):
    """The group that the record belongs to."""

    group: str


class ShareMemberKey(NamedTuple):
    """The group and the member that the record belongs to."""

    group: str
    member_id: str


class ShareGroupMetadataValue(NamedTuple):
    """The group's epoch, and the hash of the topics that it was computed from."""

    epoch: int
    metadata_hash: int


class ShareGroupMemberMetadataValue(NamedTuple):
    """A member's description of itself."""

    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]


class ShareGroupTargetAssignmentMetadataValue(NamedTuple):
    """The epoch that the target was made for, and when; 0 if that is not known."""

    assignment_epoch: int
    assigned_ms: int


class ShareGroupCurrentMemberAssignmentValue(NamedTuple):
    """What a member has now."""

    member_epoch: int
    previous_member_epoch: int
    assigned: Partitions


class TopicPartitions(NamedTuple):
    """A topic's name, and partitions of it."""

    name: str
    partitions: frozenset[int]


class ShareGroupStatePartitionMetadataValue(NamedTuple):
    """How far the share coordinator has the state of topics, by id. `deleting` has names."""

    initializing: Mapping[UUID, TopicPartitions]
    initialized: Mapping[UUID, TopicPartitions]
    deleting: Mapping[UUID, str]


def _read_group_metadata(data: bytes) -> ShareGroupMetadataValue:
    reader = value_reader(data)
    return ShareGroupMetadataValue(reader.int32(), reader.int64())


def _member_metadata(value: ShareGroupMemberMetadataValue) -> bytes:
    parts = map(fields.compact_string, (value.rack_id, value.client_id, value.client_host))
    return b"".join((VERSION_0, *parts, strings(value.subscribed_topic_names), NO_TAGS))


def _read_member_metadata(data: bytes) -> ShareGroupMemberMetadataValue:
    reader = value_reader(data)
    return ShareGroupMemberMetadataValue(reader.nullable_string(), reader.string(), reader.string(), reader.strings())


def _target_metadata(value: ShareGroupTargetAssignmentMetadataValue) -> bytes:
    tags = {_TIMESTAMP_TAG: INT64.pack(value.assigned_ms)} if value.assigned_ms else {}
    return VERSION_0 + INT32.pack(value.assignment_epoch) + fields.tagged_fields(tags)


def _read_target_metadata(data: bytes) -> ShareGroupTargetAssignmentMetadataValue:
    reader = value_reader(data)
    epoch = reader.int32()
    assigned = reader.tags().get(_TIMESTAMP_TAG)
    return ShareGroupTargetAssignmentMetadataValue(epoch, 0 if assigned is None else INT64.unpack(assigned)[0])


def _current_assignment(value: ShareGroupCurrentMemberAssignmentValue) -> bytes:
    epochs = INT32.pack(value.member_epoch) + INT32.pack(value.previous_member_epoch)
    return VERSION_0 + epochs + INT8.pack(STABLE) + partitions(value.assigned) + NO_TAGS


def _read_current_assignment(data: bytes) -> ShareGroupCurrentMemberAssignmentValue:
    reader = value_reader(data)
    epoch, previous, _ = reader.int32(), reader.int32(), reader.int8()
    return ShareGroupCurrentMemberAssignmentValue(epoch, previous, read_partitions(reader))


def _topics(topics: Mapping[UUID, TopicPartitions]) -> bytes:
    return fields.compact_array(
        [
            topic_id.bytes
            + fields.compact_string(topic.name)
            + fields.compact_array([INT32.pack(index) for index in sorted(topic.partitions)])
            + NO_TAGS
            for topic_id, topic in topics.items()
        ]
    )


def _read_topics(reader: FieldReader) -> dict[UUID, TopicPartitions]:
    return dict(_read_topic(reader) for _ in range(reader.array_size()))


def _read_topic(reader: FieldReader) -> tuple[UUID, TopicPartitions]:
    topic_id, name = reader.uuid(), reader.string()
    indexes = frozenset(reader.int32() for _ in range(reader.array_size()))
    reader.tags()
    return topic_id, TopicPartitions(name, indexes)


def _state_metadata(value: ShareGroupStatePartitionMetadataValue) -> bytes:
    deleting = [topic_id.bytes + fields.compact_string(name) + NO_TAGS for topic_id, name in value.deleting.items()]
    parts = _topics(value.initializing), _topics(value.initialized), fields.compact_array(deleting)
    return b"".join((VERSION_0, *parts, NO_TAGS))


def _read_state_metadata(data: bytes) -> ShareGroupStatePartitionMetadataValue:
    reader = value_reader(data)
    return ShareGroupStatePartitionMetadataValue(_read_topics(reader), _read_topics(reader), _read_deleting(reader))


def _read_deleting(reader: FieldReader) -> dict[UUID, str]:
    deleting = {}
    for _ in range(reader.array_size()):
        topic_id = reader.uuid()
        deleting[topic_id] = reader.string()
        reader.tags()
    return deleting


SHARE_GROUP_MEMBER_METADATA: RecordSchema[ShareMemberKey, ShareGroupMemberMetadataValue] = RecordSchema(
    "ShareGroupMemberMetadata",
    (10,),
    key_encoder(10),
    two_parts(ShareMemberKey),
    _member_metadata,
    {0: _read_member_metadata},
)
SHARE_GROUP_METADATA: RecordSchema[ShareGroupKey, ShareGroupMetadataValue] = RecordSchema(
    "ShareGroupMetadata",
    (11,),
    key_encoder(11),
    one_part(ShareGroupKey),
    lambda value: VERSION_0 + INT32.pack(value.epoch) + INT64.pack(value.metadata_hash) + NO_TAGS,
    {0: _read_group_metadata},
)
SHARE_GROUP_TARGET_ASSIGNMENT_METADATA: RecordSchema[ShareGroupKey, ShareGroupTargetAssignmentMetadataValue] = (
    RecordSchema(
        "ShareGroupTargetAssignmentMetadata",
        (12,),
        key_encoder(12),
        one_part(ShareGroupKey),
        _target_metadata,
        {0: _read_target_metadata},
    )
)
SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER: RecordSchema[ShareMemberKey, Partitions] = RecordSchema(
    "ShareGroupTargetAssignmentMember",
    (13,),
    key_encoder(13),
    two_parts(ShareMemberKey),
    lambda value: VERSION_0 + partitions(value) + NO_TAGS,
    {0: lambda data: read_partitions(value_reader(data))},
)
SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT: RecordSchema[ShareMemberKey, ShareGroupCurrentMemberAssignmentValue] = (
    RecordSchema(
        "ShareGroupCurrentMemberAssignment",
        (14,),
        key_encoder(14),
        two_parts(ShareMemberKey),
        _current_assignment,
        {0: _read_current_assignment},
    )
)
SHARE_GROUP_STATE_PARTITION_METADATA: RecordSchema[ShareGroupKey, ShareGroupStatePartitionMetadataValue] = RecordSchema(
    "ShareGroupStatePartitionMetadata",
    (15,),
    key_encoder(15),
    one_part(ShareGroupKey),
    _state_metadata,
    {0: _read_state_metadata},
)
SHARE_GROUP_SCHEMAS: tuple[RecordSchema[Any, Any], ...] = (
    SHARE_GROUP_MEMBER_METADATA,
    SHARE_GROUP_METADATA,
    SHARE_GROUP_TARGET_ASSIGNMENT_METADATA,
    SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER,
    SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    SHARE_GROUP_STATE_PARTITION_METADATA,
)
