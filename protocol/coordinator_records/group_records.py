"""The records of `__consumer_offsets` for classic groups and committed offsets, in all of Kafka's versions.

Kafka 4.4 writes OffsetCommitValue 4, or 1 where the commit carries its own retention (OffsetCommit 2-4); and
GroupMetadataValue 3 (Kafka's GroupCoordinatorRecordHelpers).
"""

from __future__ import annotations

import struct
from functools import partial
from typing import NamedTuple
from uuid import UUID

from ..primitives import INT16, INT32, INT64
from ..records.batch import NO_TIMESTAMP
from . import fields
from .fields import FieldReader
from .record_schema import RecordSchema

LEGACY_OFFSET_COMMIT_ID = 0
OFFSET_COMMIT_ID = 1
GROUP_METADATA_ID = 2

_OFFSET_COMMIT_KEY_ID = INT16.pack(OFFSET_COMMIT_ID)
_GROUP_METADATA_KEY_ID = INT16.pack(GROUP_METADATA_ID)
_GROUP_METADATA_VERSION = INT16.pack(3)
_VALUE_START = struct.Struct(">hqi")
_VALUE_END = struct.Struct(">qB")
_EXPIRING_START = struct.Struct(">hq")
_EXPIRING_END = struct.Struct(">qq")

_TOPIC_ID_TAG = 0
_TOPIC_ID_BYTES = 16


class OffsetCommitKey(NamedTuple):
    """The group and the partition whose offset this is."""

    group: str
    topic: str
    partition: int


class OffsetCommitValue(NamedTuple):
    """A committed offset; times in ms, `leader_epoch` and `expire_timestamp` -1 if not set."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    expire_timestamp: int = NO_TIMESTAMP
    topic_id: UUID | None = None


class GroupMetadataKey(NamedTuple):
    """The group that the record belongs to."""

    group: str


class MemberMetadata(NamedTuple):
    """A member of a classic group; timeouts in ms."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout: int
    session_timeout: int
    subscription: bytes
    assignment: bytes


class GroupMetadataValue(NamedTuple):
    """A classic group as its last generation left it; `current_state_timestamp` -1 in versions 0 and 1."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    current_state_timestamp: int
    members: tuple[MemberMetadata, ...]


def _offset_commit_key(key: OffsetCommitKey) -> bytes:
    group, topic, partition = key
    return _OFFSET_COMMIT_KEY_ID + fields.string(group) + fields.string(topic) + INT32.pack(partition)


def _read_offset_commit_key(data: bytes) -> OffsetCommitKey:
    reader = FieldReader(data, 2)
    return OffsetCommitKey(reader.string(), reader.string(), reader.int32())


def _offset_commit_value(value: OffsetCommitValue) -> bytes:
    if value.expire_timestamp != NO_TIMESTAMP:
        return (
            _EXPIRING_START.pack(1, value.offset)
            + fields.string(value.metadata)
            + _EXPIRING_END.pack(value.commit_timestamp, value.expire_timestamp)
        )
    tags = value.topic_id is not None
    encoded = (
        _VALUE_START.pack(4, value.offset, value.leader_epoch)
        + fields.compact_string(value.metadata)
        + _VALUE_END.pack(value.commit_timestamp, tags)
    )
    if value.topic_id is None:
        return encoded
    return encoded + bytes((_TOPIC_ID_TAG, _TOPIC_ID_BYTES)) + value.topic_id.bytes


def _read_offset_commit_value(version: int, data: bytes) -> OffsetCommitValue:
    reader = FieldReader(data, 2, flexible=version >= 4)
    offset = reader.int64()
    leader_epoch = reader.int32() if version >= 3 else -1
    metadata = reader.string()
    commit_timestamp = reader.int64()
    expire_timestamp = reader.int64() if version == 1 else NO_TIMESTAMP
    topic_id = reader.tags().get(_TOPIC_ID_TAG)
    return OffsetCommitValue(
        offset,
        leader_epoch,
        metadata,
        commit_timestamp,
        expire_timestamp,
        None if topic_id is None else fields.uuid(topic_id),
    )


def _group_metadata_key(key: GroupMetadataKey) -> bytes:
    return _GROUP_METADATA_KEY_ID + fields.string(key.group)


def _read_group_metadata_key(data: bytes) -> GroupMetadataKey:
    return GroupMetadataKey(FieldReader(data, 2).string())


def _group_metadata_value(value: GroupMetadataValue) -> bytes:
    parts = [
        _GROUP_METADATA_VERSION,
        fields.string(value.protocol_type),
        INT32.pack(value.generation),
        fields.string(value.protocol),
        fields.string(value.leader),
        INT64.pack(value.current_state_timestamp),
        INT32.pack(len(value.members)),
    ]
    for member in value.members:
        parts += (
            fields.string(member.member_id),
            fields.string(member.group_instance_id),
            fields.string(member.client_id),
            fields.string(member.client_host),
            INT32.pack(member.rebalance_timeout),
            INT32.pack(member.session_timeout),
            fields.sized(member.subscription),
            fields.sized(member.assignment),
        )
    return b"".join(parts)


def _read_group_metadata_value(version: int, data: bytes) -> GroupMetadataValue:
    reader = FieldReader(data, 2, flexible=version >= 4)
    protocol_type = reader.string()
    generation = reader.int32()
    protocol = reader.nullable_string()
    leader = reader.nullable_string()
    current_state_timestamp = reader.int64() if version >= 2 else NO_TIMESTAMP
    members = tuple(_read_member(version, reader) for _ in range(reader.array_size()))
    reader.tags()
    return GroupMetadataValue(protocol_type, generation, protocol, leader, current_state_timestamp, members)


def _read_member(version: int, reader: FieldReader) -> MemberMetadata:
    member_id = reader.string()
    group_instance_id = reader.nullable_string() if version >= 3 else None
    client_id = reader.string()
    client_host = reader.string()
    rebalance_timeout = reader.int32() if version >= 1 else -1
    session_timeout = reader.int32()
    subscription = reader.sized_bytes()
    assignment = reader.sized_bytes()
    reader.tags()
    return MemberMetadata(
        member_id,
        group_instance_id,
        client_id,
        client_host,
        rebalance_timeout,
        session_timeout,
        subscription,
        assignment,
    )


OFFSET_COMMIT: RecordSchema[OffsetCommitKey, OffsetCommitValue] = RecordSchema(
    name="OffsetCommit",
    ids=(LEGACY_OFFSET_COMMIT_ID, OFFSET_COMMIT_ID),
    encode_key=_offset_commit_key,
    read_key=_read_offset_commit_key,
    encode_value=_offset_commit_value,
    read_value={version: partial(_read_offset_commit_value, version) for version in range(5)},
)

GROUP_METADATA: RecordSchema[GroupMetadataKey, GroupMetadataValue] = RecordSchema(
    name="GroupMetadata",
    ids=(GROUP_METADATA_ID,),
    encode_key=_group_metadata_key,
    read_key=_read_group_metadata_key,
    encode_value=_group_metadata_value,
    read_value={version: partial(_read_group_metadata_value, version) for version in range(5)},
)
