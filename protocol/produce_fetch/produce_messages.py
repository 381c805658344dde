"""Produce requests 3-13 and responses, by hand: record data is never copied.

Layout: `ProduceRequest.json` and `ProduceResponse.json`. Flexible from version 9; KIP-951's tagged fields from
version 10; topic ids instead of names from version 13 (KIP-516).
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from struct import error as StructError
from typing import NamedTuple, TypeAlias

from .. import uuids
from ..headers import finish_frame, frame_with_header
from ..primitives import (
    MOST_ELEMENTS,
    Buffer,
    DecodeError,
    append_uvarint,
    read_compact_length,
    skip_tagged_fields,
    too_many,
    underflow,
)
from .parts import (
    I32,
    UNKNOWN_LEADER,
    LeaderIdAndEpoch,
    NodeEndpoint,
    TopicKey,
    append_compact_text,
    append_count,
    append_legacy_text,
    append_node_endpoints,
    append_topic_key,
    read_compact_count,
    read_compact_text,
    read_legacy_count,
    read_legacy_text,
)

__all__ = [
    "BatchIndexAndErrorMessage",
    "LeaderIdAndEpoch",
    "NodeEndpoint",
    "PartitionProduceResponse",
    "ProduceRequest",
    "ProduceResponse",
    "decode_request",
    "encode_response",
]

PartitionRecords: TypeAlias = tuple[int, memoryview | None]
"""A partition's index and its record data, a slice of the request's own buffer."""

_ACKS_TIMEOUT = Struct(">hi")
_ACKS_TIMEOUT_COUNT = Struct(">hiB")
_INDEX_LENGTH_V3 = Struct(">ii")
_INDEX_LENGTH_V9 = Struct(">iB")
_PARTITION_V3 = Struct(">ihqq")
_PARTITION_V5 = Struct(">ihqqq")
_PARTITION_V8_PLAIN = Struct(">ihqqqih")  # no record errors, no error message
_PARTITION_V9_PLAIN = Struct(">ihqqqBBB")  # and no tagged fields
_CURRENT_LEADER = Struct(">BBBiiB")  # count, tag and size of the field, its fields and their empty tags


# Not frozen, like all classes of the hot path: a frozen dataclass takes three times as long to make.
@dataclass(slots=True)
class ProduceRequest:
    """`topics` are (name, or id from version 13) with their partitions, in the order of the request."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[tuple[TopicKey, list[PartitionRecords]]]


class BatchIndexAndErrorMessage(NamedTuple):
    """The index in the batch of a record for which the whole batch was dropped (KIP-467)."""

    batch_index: int
    message: str | None = None


@dataclass(slots=True)
class PartitionProduceResponse:
    """`log_append_time_ms` is -1 unless the topic stamps records itself."""

    index: int
    error_code: int = 0
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: tuple[BatchIndexAndErrorMessage, ...] = ()
    error_message: str | None = None
    current_leader: LeaderIdAndEpoch = UNKNOWN_LEADER


@dataclass(slots=True)
class ProduceResponse:
    """`topics` are named as in the request: names, or ids from version 13."""

    topics: list[tuple[TopicKey, list[PartitionProduceResponse]]]
    throttle_time_ms: int = 0
    node_endpoints: tuple[NodeEndpoint, ...] = ()


def decode_request(version: int, buf: Buffer, pos: int) -> ProduceRequest:
    """The request whose body starts at `pos`; bytes after it are ignored. `buf` must outlive the record slices.

    Raises DecodeError if the bytes are no Produce request of that version.
    """
    view = buf if isinstance(buf, memoryview) else memoryview(buf)
    try:
        return _decode_flexible(version, view, pos) if version >= 9 else _decode_legacy(view, pos)
    except (IndexError, StructError):
        raise DecodeError(f"produce request of {len(buf) - pos} bytes is cut short") from None


# In one piece: a function for the partitions of a topic took 2 to 4 % longer.
def _decode_flexible(version: int, buf: memoryview, pos: int) -> ProduceRequest:  # noqa: PLR0912
    # Lengths of a byte or two are read in place: a call for each would double the time of a small request.
    transactional_id = None
    if buf[pos]:
        transactional_id, pos = read_compact_text(buf, pos, "transactional id")
    else:
        pos += 1
    acks, timeout_ms, topic_count = _ACKS_TIMEOUT_COUNT.unpack_from(buf, pos)
    pos += 7
    if 0 < topic_count < 0x80:
        topic_count -= 1
    else:
        topic_count, pos = read_compact_count(buf, pos - 1, "topic data")
    topics: list[tuple[TopicKey, list[PartitionRecords]]] = []
    left = MOST_ELEMENTS - topic_count
    for _ in range(topic_count):
        key, pos = _read_topic_key(version, buf, pos)
        partition_count = buf[pos] - 1
        if 0 <= partition_count < 0x7F:
            pos += 1
        else:
            partition_count, pos = read_compact_count(buf, pos, "partition data")
        left -= partition_count
        if left < 0:
            raise too_many("partition data")
        partitions: list[PartitionRecords] = []
        for _ in range(partition_count):
            index, length = _INDEX_LENGTH_V9.unpack_from(buf, pos)
            pos += 5
            if length >= 0x80:
                high = buf[pos]
                if high < 0x80:
                    length += (high << 7) - 0x80
                    pos += 1
                else:
                    length, pos = read_compact_length(buf, pos - 1, "record data")
                    length += 1
            records = None
            if length:
                end = pos + length - 1
                if end > len(buf):
                    raise underflow("record data", length - 1, buf, pos)
                records = buf[pos:end]
                pos = end
            partitions.append((index, records))
            pos = skip_tagged_fields(buf, pos) if buf[pos] else pos + 1
        pos = skip_tagged_fields(buf, pos) if buf[pos] else pos + 1
        topics.append((key, partitions))
    if buf[pos]:
        skip_tagged_fields(buf, pos)
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def _read_topic_key(version: int, buf: memoryview, pos: int) -> tuple[TopicKey, int]:
    if version >= 13:
        end = pos + 16
        if end > len(buf):
            raise underflow("topic id", 16, buf, pos)
        return uuids.from_bytes(bytes(buf[pos:end])), end
    name, pos = read_compact_text(buf, pos, "topic name")
    if name is None:
        raise DecodeError("topic name is null")
    return name, pos


def _decode_legacy(buf: memoryview, pos: int) -> ProduceRequest:
    transactional_id, pos = read_legacy_text(buf, pos, "transactional id")
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(buf, pos)
    topic_count, pos = read_legacy_count(buf, pos + 6, "topic data")
    topics: list[tuple[TopicKey, list[PartitionRecords]]] = []
    left = MOST_ELEMENTS - topic_count
    for _ in range(topic_count):
        key, pos = read_legacy_text(buf, pos, "topic name")
        if key is None:
            raise DecodeError("topic name is null")
        partition_count, pos = read_legacy_count(buf, pos, "partition data")
        left -= partition_count
        if left < 0:
            raise too_many("partition data")
        partitions: list[PartitionRecords] = []
        for _ in range(partition_count):
            index, length = _INDEX_LENGTH_V3.unpack_from(buf, pos)
            pos += 8
            records = None
            if length >= 0:
                end = pos + length
                if end > len(buf):
                    raise underflow("record data", length, buf, pos)
                records = buf[pos:end]
                pos = end
            partitions.append((index, records))
        topics.append((key, partitions))
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def encode_response(response: ProduceResponse, version: int, correlation_id: int) -> bytearray:
    """The whole frame, size prefix included."""
    flexible = version >= 9
    out = frame_with_header(1 if flexible else 0, correlation_id)
    append_count(out, len(response.topics), flexible)
    for key, partitions in response.topics:
        append_topic_key(out, key, flexible)
        append_count(out, len(partitions), flexible)
        if flexible:
            for partition in partitions:
                _append_flexible_partition(out, partition, version)
            out.append(0)
        else:
            for partition in partitions:
                _append_legacy_partition(out, partition, version)
    out += I32.pack(response.throttle_time_ms)
    if flexible:
        append_node_endpoints(out, response.node_endpoints if version >= 10 else ())
    return finish_frame(out)


def _append_flexible_partition(out: bytearray, partition: PartitionProduceResponse, version: int) -> None:
    p = partition
    leader = p.current_leader
    if leader is UNKNOWN_LEADER and not p.record_errors and p.error_message is None:
        out += _PARTITION_V9_PLAIN.pack(
            p.index, p.error_code, p.base_offset, p.log_append_time_ms, p.log_start_offset, 1, 0, 0
        )
        return
    out += _PARTITION_V5.pack(p.index, p.error_code, p.base_offset, p.log_append_time_ms, p.log_start_offset)
    append_uvarint(out, len(p.record_errors) + 1)
    for batch_index, message in p.record_errors:
        out += I32.pack(batch_index)
        append_compact_text(out, message)
        out.append(0)
    append_compact_text(out, p.error_message)
    if version >= 10 and leader != UNKNOWN_LEADER:
        out += _CURRENT_LEADER.pack(1, 0, 9, leader.leader_id, leader.leader_epoch, 0)
    else:
        out.append(0)


def _append_legacy_partition(out: bytearray, partition: PartitionProduceResponse, version: int) -> None:
    p = partition
    if version < 5:
        out += _PARTITION_V3.pack(p.index, p.error_code, p.base_offset, p.log_append_time_ms)
    elif version < 8:
        out += _PARTITION_V5.pack(p.index, p.error_code, p.base_offset, p.log_append_time_ms, p.log_start_offset)
    elif not p.record_errors and p.error_message is None:
        out += _PARTITION_V8_PLAIN.pack(
            p.index, p.error_code, p.base_offset, p.log_append_time_ms, p.log_start_offset, 0, -1
        )
    else:
        out += _PARTITION_V5.pack(p.index, p.error_code, p.base_offset, p.log_append_time_ms, p.log_start_offset)
        out += I32.pack(len(p.record_errors))
        for batch_index, message in p.record_errors:
            out += I32.pack(batch_index)
            append_legacy_text(out, message)
        append_legacy_text(out, p.error_message)
