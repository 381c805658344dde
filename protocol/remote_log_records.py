"""The records of `__remote_log_metadata`: which segments of which partitions are in remote storage (KIP-405).

A key is null; a value is a frame as in the metadata log: 1, API key, version, body (`RemoteLogMetadataSerde`). They are
Kafka's `RemoteLogSegmentMetadataRecord`, `RemoteLogSegmentMetadataUpdateRecord`, `RemotePartitionDeleteMetadataRecord`.
"""

from __future__ import annotations

import struct
from typing import Annotated, TypeAlias
from uuid import UUID

from .declared import Bool, Bytes, Int8, Int32, Int64, Placed, String, Uuid, record
from .metadata.serde import FRAME_VERSION, UnknownRecordError, encode_record
from .murmur2 import partition_of_key
from .primitives import DecodeError, read_uvarint
from .schema import EntityClass, layout

COPY_SEGMENT_STARTED, COPY_SEGMENT_FINISHED, DELETE_SEGMENT_STARTED, DELETE_SEGMENT_FINISHED = range(4)
"""The states of a remote segment."""

DELETE_PARTITION_MARKED, DELETE_PARTITION_STARTED, DELETE_PARTITION_FINISHED = range(3)
"""The states of a partition that is being deleted."""


@record()
class TopicIdPartitionEntry:
    """A partition by its topic's name and id."""

    name: String
    id: Uuid
    partition: Int32


@record()
class RemoteLogSegmentIdEntry:
    """A remote segment: its partition, and an id that no other copy has."""

    topic_id_partition: TopicIdPartitionEntry
    id: Uuid


@record()
class SegmentLeaderEpochEntry:
    """A leader epoch, and the first offset of the segment that belongs to it."""

    leader_epoch: Int32
    offset: Int64


@record(0)
class RemoteLogSegmentMetadataRecord:
    """A segment whose copy has begun. `end_offset` is inclusive, times are milliseconds."""

    remote_log_segment_id: RemoteLogSegmentIdEntry
    start_offset: Int64
    end_offset: Int64
    broker_id: Int32
    max_timestamp_ms: Int64
    event_timestamp_ms: Int64
    segment_leader_epochs: tuple[SegmentLeaderEpochEntry, ...]
    segment_size_in_bytes: Int32
    custom_metadata: Bytes | None = None
    remote_log_segment_state: Int8
    txn_index_empty: Annotated[Bool, Placed(tag=0)] = False


@record(1)
class RemoteLogSegmentMetadataUpdateRecord:
    """A segment's next state."""

    remote_log_segment_id: RemoteLogSegmentIdEntry
    broker_id: Int32
    event_timestamp_ms: Int64
    custom_metadata: Bytes | None = None
    remote_log_segment_state: Int8


@record(2)
class RemotePartitionDeleteMetadataRecord:
    """A partition whose remote segments are being deleted, all of them."""

    topic_id_partition: TopicIdPartitionEntry
    broker_id: Int32
    event_timestamp_ms: Int64
    remote_partition_delete_state: Int8


RemoteLogRecord: TypeAlias = (
    RemoteLogSegmentMetadataRecord | RemoteLogSegmentMetadataUpdateRecord | RemotePartitionDeleteMetadataRecord
)
_CLASSES: tuple[EntityClass, ...] = (
    RemoteLogSegmentMetadataRecord,
    RemoteLogSegmentMetadataUpdateRecord,
    RemotePartitionDeleteMetadataRecord,
)


def encode_remote_log_record(remote: RemoteLogRecord) -> bytes:
    """The value of a record."""
    return encode_record(remote)


def decode_remote_log_record(value: bytes) -> RemoteLogRecord:
    """The record in a value. Raises UnknownRecordError for a newer one, DecodeError for bytes that are no record."""
    from .reader import entity_reader

    frame_version, pos = read_uvarint(value, 0)
    api_key, pos = read_uvarint(value, pos)
    version, pos = read_uvarint(value, pos)
    if frame_version != FRAME_VERSION or api_key >= len(_CLASSES) or version:
        raise UnknownRecordError(f"remote log record {api_key}, version {version}, frame {frame_version} is not known")
    cls = _CLASSES[api_key]
    found, end = entity_reader(layout(cls, version), cls)(value, pos)
    if end != len(value):
        raise DecodeError(f"{len(value) - end} bytes follow a {cls.__name__}")
    known: RemoteLogRecord = found
    return known


_HALVES = struct.Struct(">QQ")


def metadata_partition(topic_id: UUID, partition: int, count: int) -> int:
    """The partition of the topic that has the records of a partition (`RemoteLogMetadataTopicPartitioner`)."""
    most, least = _HALVES.unpack(topic_id.bytes)
    hashed = 31 * (31 * (31 + _hash_of_long(least)) + _hash_of_long(most)) + partition
    return partition_of_key((hashed & 0xFFFFFFFF).to_bytes(4), count)


def _hash_of_long(value: int) -> int:
    return (value ^ value >> 32) & 0xFFFFFFFF
