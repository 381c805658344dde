"""Fetch responses 4-18, by hand, as a list of buffers: large record data is sent from where it lies, never copied.

Layout: `FetchResponse.json`. The error code and the session from version 7, KIP-392's preferred replica from 11,
flexible with the epoch tags from 12 (KIP-595), topic ids from 13, node endpoints from 16 (KIP-951).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from typing import NamedTuple

from ..headers import finish_frame, frame_with_header
from ..primitives import Buffer, UnreadBytes, append_uvarint
from .parts import (
    I32,
    UNKNOWN_LEADER,
    LeaderIdAndEpoch,
    NodeEndpoint,
    TopicKey,
    append_count,
    append_node_endpoints,
    append_topic_key,
)

COPIED_BELOW = 1024
"""Record data smaller than this many bytes is copied into the buffer around it: cheaper than a buffer of its own."""

_THROTTLE_TO_SESSION = Struct(">ihi")
_PARTITION_V4 = Struct(">ihqq")
_PARTITION_V5 = Struct(">ihqqq")
_IDLE_PARTITION = Struct(">ihqqqBiBB")  # flexible: no aborted transactions, no records, no tags
_ABORTED_LEGACY = Struct(">qq")
_ABORTED = Struct(">qqB")
_DIVERGING_EPOCH = Struct(">BBiqB")  # tag and size of the field, its fields and their empty tags
_CURRENT_LEADER = Struct(">BBiiB")
_SNAPSHOT_ID = Struct(">BBqiB")


class AbortedTransaction(NamedTuple):
    """From this offset on, the consumer must drop the producer's records up to its next abort marker (KIP-98)."""

    producer_id: int
    first_offset: int


class EpochEndOffset(NamedTuple):
    """A leader epoch and the offset after its last record (KIP-595); -1: not given."""

    epoch: int = -1
    end_offset: int = -1


class SnapshotId(NamedTuple):
    """The snapshot that a follower of the metadata log has to fetch (KIP-630); -1: none."""

    end_offset: int = -1
    epoch: int = -1


NO_EPOCH = EpochEndOffset()
NO_SNAPSHOT = SnapshotId()


# Not frozen, like all classes of the hot path: a frozen dataclass takes three times as long to make.
@dataclass(slots=True)
class FetchPartitionResponse:
    """One partition's answer; the defaults are what Kafka sends for a partition with an error.

    Apache Kafka never sends null records but empty ones, even with an error. Its `aborted_transactions` are a list
    for read_committed, null for read_uncommitted and for an offset out of range, and empty for a partition that was
    refused before it was read.
    """

    partition_index: int
    error_code: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted_transactions: Sequence[AbortedTransaction] | None = None
    preferred_read_replica: int = -1
    records: Buffer | UnreadBytes | None = b""
    diverging_epoch: EpochEndOffset = NO_EPOCH
    current_leader: LeaderIdAndEpoch = UNKNOWN_LEADER
    snapshot_id: SnapshotId = NO_SNAPSHOT


@dataclass(slots=True)
class FetchResponse:
    """`topics` are named as in the request: names, or ids from version 13."""

    topics: list[tuple[TopicKey, list[FetchPartitionResponse]]]
    error_code: int = 0
    session_id: int = 0
    throttle_time_ms: int = 0
    node_endpoints: tuple[NodeEndpoint, ...] = ()


def encode_response(response: FetchResponse, version: int, correlation_id: int) -> list[Buffer | UnreadBytes]:
    """The frame as consecutive buffers, the size prefix in the first. They hold the partitions' own `records`."""
    flexible = version >= 12
    first = out = frame_with_header(1 if flexible else 0, correlation_id)
    buffers: list[Buffer | UnreadBytes] = [first]
    _append_head(out, response, version)
    for key, partitions in response.topics:
        append_topic_key(out, key, flexible)
        append_count(out, len(partitions), flexible)
        for partition in partitions:
            if flexible:
                if _append_if_idle(out, partition):
                    continue
                _append_flexible_partition(out, partition)
            else:
                _append_legacy_partition(out, partition, version)
            records = partition.records
            if records:
                if len(records) < COPIED_BELOW and not isinstance(records, UnreadBytes):
                    out += records
                else:
                    buffers.append(records)
                    out = bytearray()
                    buffers.append(out)
            if flexible:
                _append_partition_tags(out, partition)
        if flexible:
            out.append(0)
    if flexible:
        append_node_endpoints(out, response.node_endpoints if version >= 16 else ())
    if not out:
        buffers.pop()
    finish_frame(first, sum(map(len, buffers)) - len(first))
    return buffers


def _append_head(out: bytearray, response: FetchResponse, version: int) -> None:
    if version >= 7:
        out += _THROTTLE_TO_SESSION.pack(response.throttle_time_ms, response.error_code, response.session_id)
    else:
        out += I32.pack(response.throttle_time_ms)
    append_count(out, len(response.topics), version >= 12)


def _append_if_idle(out: bytearray, p: FetchPartitionResponse) -> bool:
    """Append the whole partition at once if it has only offsets, as most have where a consumer reads many."""
    aborted = p.aborted_transactions
    is_idle = p.records == b"" and not aborted and p.diverging_epoch is NO_EPOCH
    if not is_idle or p.current_leader is not UNKNOWN_LEADER or p.snapshot_id is not NO_SNAPSHOT:
        return False
    out += _IDLE_PARTITION.pack(
        p.partition_index,
        p.error_code,
        p.high_watermark,
        p.last_stable_offset,
        p.log_start_offset,
        0 if aborted is None else 1,
        p.preferred_read_replica,
        1,
        0,
    )
    return True


def _append_flexible_partition(out: bytearray, p: FetchPartitionResponse) -> None:
    """Append everything up to and including the length of the record data."""
    out += _PARTITION_V5.pack(
        p.partition_index, p.error_code, p.high_watermark, p.last_stable_offset, p.log_start_offset
    )
    if p.aborted_transactions is None:
        out.append(0)
    else:
        append_uvarint(out, len(p.aborted_transactions) + 1)
        for producer_id, first_offset in p.aborted_transactions:
            out += _ABORTED.pack(producer_id, first_offset, 0)
    out += I32.pack(p.preferred_read_replica)
    append_uvarint(out, 0 if p.records is None else len(p.records) + 1)


def _append_legacy_partition(out: bytearray, p: FetchPartitionResponse, version: int) -> None:
    """Append everything up to and including the length of the record data."""
    if version >= 5:
        out += _PARTITION_V5.pack(
            p.partition_index, p.error_code, p.high_watermark, p.last_stable_offset, p.log_start_offset
        )
    else:
        out += _PARTITION_V4.pack(p.partition_index, p.error_code, p.high_watermark, p.last_stable_offset)
    aborted = p.aborted_transactions
    out += I32.pack(-1 if aborted is None else len(aborted))
    for producer_id, first_offset in aborted or ():
        out += _ABORTED_LEGACY.pack(producer_id, first_offset)
    if version >= 11:
        out += I32.pack(p.preferred_read_replica)
    out += I32.pack(-1 if p.records is None else len(p.records))


def _is_without_tags(p: FetchPartitionResponse) -> bool:
    return p.diverging_epoch is NO_EPOCH and p.current_leader is UNKNOWN_LEADER and p.snapshot_id is NO_SNAPSHOT


def _append_partition_tags(out: bytearray, p: FetchPartitionResponse) -> None:
    if _is_without_tags(p):
        out.append(0)
        return
    diverging, leader, snapshot = p.diverging_epoch, p.current_leader, p.snapshot_id
    count_at = len(out)
    out.append(0)
    if diverging != NO_EPOCH:
        out[count_at] += 1
        out += _DIVERGING_EPOCH.pack(0, 13, diverging.epoch, diverging.end_offset, 0)
    if leader != UNKNOWN_LEADER:
        out[count_at] += 1
        out += _CURRENT_LEADER.pack(1, 9, leader.leader_id, leader.leader_epoch, 0)
    if snapshot != NO_SNAPSHOT:
        out[count_at] += 1
        out += _SNAPSHOT_ID.pack(2, 13, snapshot.end_offset, snapshot.epoch, 0)
