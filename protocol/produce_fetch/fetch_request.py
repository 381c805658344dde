"""Fetch requests 4-18, by hand; the responses are in `fetch_response.py`.

Layout: `FetchRequest.json`. Sessions from version 7 (KIP-227), leader epochs from 9 (KIP-320), flexible from 12,
topic ids instead of names from 13 (KIP-516), the replica's state as a tagged field from 15 (KIP-903).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from struct import Struct
from struct import error as StructError
from typing import NamedTuple, TypeAlias
from uuid import UUID

from .. import uuids
from ..primitives import (
    Buffer,
    DecodeError,
    read_tag_count,
    read_uvarint,
    skip_tagged_field,
    skip_tagged_fields,
    too_many,
    underflow,
)
from .fetch_response import (
    AbortedTransaction,
    EpochEndOffset,
    FetchPartitionResponse,
    FetchResponse,
    SnapshotId,
    encode_response,
)
from .parts import (
    I32,
    TopicKey,
    read_compact_count,
    read_compact_text,
    read_legacy_count,
    read_legacy_text,
)

__all__ = [
    "AbortedTransaction",
    "EpochEndOffset",
    "FetchPartition",
    "FetchPartitionResponse",
    "FetchRequest",
    "FetchResponse",
    "SnapshotId",
    "decode_request",
    "encode_response",
]

ForgottenTopic: TypeAlias = tuple[TopicKey, tuple[int, ...]]
"""A topic and the partitions that an incremental request removes from its session."""

MAX_INT32 = 2**31 - 1
MAX_INT64 = 2**63 - 1

LARGEST_REQUEST = 2 << 20
"""Bytes: of a version with tagged fields, this has room for 50,000 partitions."""

_WAIT_TO_SESSION = Struct(">iiibii")  # max wait, min bytes, max bytes, isolation level, session id and epoch
_WAIT_TO_ISOLATION = Struct(">iiib")
_PARTITION_V4 = Struct(">iqi")
_PARTITION_V5 = Struct(">iqqi")
_PARTITION_V9 = Struct(">iiqqi")
_PARTITION_V12 = Struct(">iiqiqi")
_REPLICA_STATE = Struct(">iq")
_I64 = Struct(">q")


class FetchPartition(NamedTuple):
    """The request for one partition. `high_watermark` is the requesting follower's (KIP-1166)."""

    partition: int
    fetch_offset: int
    partition_max_bytes: int
    log_start_offset: int = -1
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    replica_directory_id: UUID = uuids.ZERO
    high_watermark: int = MAX_INT64


# Without a Python-level call: a consumer of many partitions names all of them in each request.
_new_partition: Callable[[tuple[int, int, int, int, int, int, UUID, int]], FetchPartition]
_new_partition = partial(tuple.__new__, FetchPartition)


# Not frozen, like all classes of the hot path: a frozen dataclass takes three times as long to make.
@dataclass(slots=True)
class FetchRequest:
    """`topics` are (name, or id from version 13) with their partitions, in the order of the request."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int = MAX_INT32
    isolation_level: int = 0
    session_id: int = 0
    session_epoch: int = -1
    topics: list[tuple[TopicKey, list[FetchPartition]]] = field(default_factory=list)
    forgotten_topics: list[ForgottenTopic] = field(default_factory=list)
    rack_id: str = ""
    replica_id: int = -1
    replica_epoch: int = -1
    cluster_id: str | None = None


def decode_request(version: int, buf: Buffer, pos: int) -> FetchRequest:
    """The request whose body starts at `pos`; bytes after it are ignored.

    Raises DecodeError if the bytes are no Fetch request of that version.
    """
    if len(buf) > LARGEST_REQUEST:
        raise too_many(f"fetch request of {len(buf)} bytes")
    try:
        return _decode_flexible(version, buf, pos) if version >= 12 else _decode_legacy(version, buf, pos)
    except (IndexError, StructError):
        raise DecodeError(f"fetch request of {len(buf) - pos} bytes is cut short") from None


def _decode_flexible(version: int, buf: Buffer, pos: int) -> FetchRequest:
    replica_id = -1
    if version < 15:
        (replica_id,) = I32.unpack_from(buf, pos)
        pos += 4
    request = FetchRequest(*_WAIT_TO_SESSION.unpack_from(buf, pos))
    request.replica_id = replica_id
    count, pos = read_compact_count(buf, pos + 21, "topics")
    for _ in range(count):
        key, pos = _read_topic_key(version, buf, pos)
        partition_count, pos = read_compact_count(buf, pos, "partitions")
        partitions = []
        for _ in range(partition_count):
            index, leader_epoch, offset, fetched_epoch, log_start, max_bytes = _PARTITION_V12.unpack_from(buf, pos)
            pos += 32
            asked = _new_partition(
                (index, offset, max_bytes, log_start, leader_epoch, fetched_epoch, uuids.ZERO, MAX_INT64)
            )
            if buf[pos]:
                asked, pos = _read_partition_tags(version, asked, buf, pos)
            else:
                pos += 1
            partitions.append(asked)
        pos = skip_tagged_fields(buf, pos) if buf[pos] else pos + 1
        request.topics.append((key, partitions))
    count, pos = read_compact_count(buf, pos, "forgotten topics")
    for _ in range(count):
        key, pos = _read_topic_key(version, buf, pos)
        partition_count, pos = read_compact_count(buf, pos, "forgotten partitions")
        indexes, pos = _read_indexes(partition_count, buf, pos)
        pos = skip_tagged_fields(buf, pos) if buf[pos] else pos + 1
        request.forgotten_topics.append((key, indexes))
    rack_id, pos = read_compact_text(buf, pos, "rack id")
    if rack_id is None:
        raise DecodeError("rack id is null")
    request.rack_id = rack_id
    if buf[pos]:
        _read_request_tags(version, request, buf, pos)
    return request


def _decode_legacy(version: int, buf: Buffer, pos: int) -> FetchRequest:
    (replica_id,) = I32.unpack_from(buf, pos)
    layout = _WAIT_TO_SESSION if version >= 7 else _WAIT_TO_ISOLATION
    request = FetchRequest(*layout.unpack_from(buf, pos + 4))
    request.replica_id = replica_id
    count, pos = read_legacy_count(buf, pos + 4 + layout.size, "topics")
    for _ in range(count):
        key, pos = _read_topic_key(version, buf, pos)
        partition_count, pos = read_legacy_count(buf, pos, "partitions")
        partitions = []
        for _ in range(partition_count):
            log_start = leader_epoch = -1
            if version >= 9:
                index, leader_epoch, offset, log_start, max_bytes = _PARTITION_V9.unpack_from(buf, pos)
                pos += 28
            elif version >= 5:
                index, offset, log_start, max_bytes = _PARTITION_V5.unpack_from(buf, pos)
                pos += 24
            else:
                index, offset, max_bytes = _PARTITION_V4.unpack_from(buf, pos)
                pos += 16
            partitions.append(FetchPartition(index, offset, max_bytes, log_start, leader_epoch))
        request.topics.append((key, partitions))
    if version >= 7:
        count, pos = read_legacy_count(buf, pos, "forgotten topics")
        for _ in range(count):
            key, pos = _read_topic_key(version, buf, pos)
            partition_count, pos = read_legacy_count(buf, pos, "forgotten partitions")
            indexes, pos = _read_indexes(partition_count, buf, pos)
            request.forgotten_topics.append((key, indexes))
    if version >= 11:
        rack_id, pos = read_legacy_text(buf, pos, "rack id")
        if rack_id is None:
            raise DecodeError("rack id is null")
        request.rack_id = rack_id
    return request


def _read_topic_key(version: int, buf: Buffer, pos: int) -> tuple[TopicKey, int]:
    if version >= 13:
        return _read_uuid(buf, pos, "topic id")
    name, pos = (read_compact_text if version >= 12 else read_legacy_text)(buf, pos, "topic name")
    if name is None:
        raise DecodeError("topic name is null")
    return name, pos


def _read_uuid(buf: Buffer, pos: int, what: str) -> tuple[UUID, int]:
    end = pos + 16
    if end > len(buf):
        raise underflow(what, 16, buf, pos)
    return uuids.from_bytes(bytes(buf[pos:end])), end


def _read_indexes(count: int, buf: Buffer, pos: int) -> tuple[tuple[int, ...], int]:
    end = pos + 4 * count
    if end > len(buf):
        raise underflow("partition indexes", 4 * count, buf, pos)
    return Struct(f">{count}i").unpack_from(buf, pos), end


def _read_partition_tags(version: int, asked: FetchPartition, buf: Buffer, pos: int) -> tuple[FetchPartition, int]:
    count, pos = read_tag_count(buf, pos)
    for _ in range(count):
        tag, pos = read_uvarint(buf, pos)
        size, pos = read_uvarint(buf, pos)
        if tag == 0 and version >= 17:
            directory_id, pos = _read_uuid(buf, pos, "replica directory id")
            asked = asked._replace(replica_directory_id=directory_id)
        elif tag == 1 and version >= 18:
            asked = asked._replace(high_watermark=_I64.unpack_from(buf, pos)[0])
            pos += 8
        elif tag in (0, 1):
            raise _not_yet(tag, version)
        else:
            pos = skip_tagged_field(buf, pos, tag, size)
    return asked, pos


def _read_request_tags(version: int, request: FetchRequest, buf: Buffer, pos: int) -> None:
    count, pos = read_tag_count(buf, pos)
    for _ in range(count):
        tag, pos = read_uvarint(buf, pos)
        size, pos = read_uvarint(buf, pos)
        if tag == 0:
            request.cluster_id, pos = read_compact_text(buf, pos, "cluster id")
        elif tag == 1 and version >= 15:
            request.replica_id, request.replica_epoch = _REPLICA_STATE.unpack_from(buf, pos)
            pos = skip_tagged_fields(buf, pos + _REPLICA_STATE.size)
        elif tag == 1:
            raise _not_yet(tag, version)
        else:
            pos = skip_tagged_field(buf, pos, tag, size)


def _not_yet(tag: int, version: int) -> DecodeError:
    """The error for a tag that only later versions define: Kafka rejects these, though it accepts unknown tags."""
    return DecodeError(f"tag {tag} is not valid for version {version}")
