"""The records of `__consumer_offsets` for classic groups and committed offsets, in all of Kafka's versions.

Kafka 4.4 writes OffsetCommitValue 4, or 1 where the commit carries its own retention (OffsetCommit 2-4); and
GroupMetadataValue 3 (Kafka's GroupCoordinatorRecordHelpers). Offset commits, by far the most of all records, are
written by hand: the generated encoder takes 20 % longer, and twice as long if there is a topic id.
"""

from __future__ import annotations

import struct
from typing import Annotated, NamedTuple

from ..declared import Bytes, Int32, Int64, Placed, String, Uuid
from ..primitives import INT16, INT32, append_uvarint
from ..records.batch import NO_TIMESTAMP
from .record_schema import GroupKey, RecordSchema, string

LEGACY_OFFSET_COMMIT_ID = 0
OFFSET_COMMIT_ID = 1
GROUP_METADATA_ID = 2

_KEY_START = INT16.pack(OFFSET_COMMIT_ID)
_VALUE_START = struct.Struct(">hqi")
_VALUE_END = struct.Struct(">qB")
_EXPIRING_START = struct.Struct(">hq")
_EXPIRING_END = struct.Struct(">qq")
_TOPIC_ID_TAG = b"\x00\x10"
_ONE_BYTE = [bytes((number,)) for number in range(128)]


class OffsetCommitKey(NamedTuple):
    """The group and the partition whose offset this is."""

    group: String
    topic: String
    partition: Int32


class OffsetCommitValue(NamedTuple):
    """A committed offset; times in ms, `leader_epoch` and `expire_timestamp` -1 if not set."""

    offset: Int64
    leader_epoch: Annotated[Int32, Placed(since=3, absent=-1)]
    metadata: String
    commit_timestamp: Int64
    expire_timestamp: Annotated[Int64, Placed(since=1, until=1)] = NO_TIMESTAMP
    topic_id: Annotated[Uuid | None, Placed(since=4, tag=0)] = None


class MemberMetadata(NamedTuple):
    """A member of a classic group; timeouts in ms."""

    member_id: String
    group_instance_id: Annotated[String | None, Placed(since=3, absent=None)]
    client_id: String
    client_host: String
    rebalance_timeout: Annotated[Int32, Placed(since=1, absent=-1)]
    session_timeout: Int32
    subscription: Bytes
    assignment: Bytes


class GroupMetadataValue(NamedTuple):
    """A classic group as its last generation left it; `current_state_timestamp` -1 in versions 0 and 1."""

    protocol_type: String
    generation: Int32
    protocol: String | None
    leader: String | None
    current_state_timestamp: Annotated[Int64, Placed(since=2, absent=NO_TIMESTAMP)]
    members: tuple[MemberMetadata, ...]


def _encode_offset_commit_key(key: OffsetCommitKey) -> bytes:
    group, topic, partition = key
    return _KEY_START + string(group) + string(topic) + INT32.pack(partition)


def _encode_offset_commit_value(value: OffsetCommitValue) -> bytes:
    offset, leader_epoch, metadata, commit_timestamp, expire_timestamp, topic_id = value
    if expire_timestamp != NO_TIMESTAMP:
        start, end = _EXPIRING_START.pack(1, offset), _EXPIRING_END.pack(commit_timestamp, expire_timestamp)
        return start + string(metadata) + end
    data = metadata.encode()
    encoded = (
        _VALUE_START.pack(4, offset, leader_epoch)
        + (_ONE_BYTE[len(data) + 1] if len(data) < 0x7F else _uvarint(len(data) + 1))
        + data
        + _VALUE_END.pack(commit_timestamp, topic_id is not None)
    )
    return encoded if topic_id is None else encoded + _TOPIC_ID_TAG + topic_id.bytes


def _uvarint(number: int) -> bytes:
    out = bytearray()
    append_uvarint(out, number)
    return bytes(out)


OFFSET_COMMIT = RecordSchema(
    "OffsetCommit",
    (LEGACY_OFFSET_COMMIT_ID, OFFSET_COMMIT_ID),
    OffsetCommitKey,
    OffsetCommitValue,
    highest=4,
    flexible=4,
    encode_key=_encode_offset_commit_key,
    encode_value=_encode_offset_commit_value,
)
GROUP_METADATA = RecordSchema(
    "GroupMetadata", (GROUP_METADATA_ID,), GroupKey, GroupMetadataValue, highest=4, flexible=4, written=3
)
