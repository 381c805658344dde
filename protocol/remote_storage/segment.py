"""A segment in remote storage: what is known of it, and the records of `__remote_log_metadata` that say so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from uuid import UUID

from ..remote_log_records import (
    COPY_SEGMENT_FINISHED,
    COPY_SEGMENT_STARTED,
    DELETE_SEGMENT_FINISHED,
    DELETE_SEGMENT_STARTED,
    RemoteLogSegmentIdEntry,
    RemoteLogSegmentMetadataRecord,
    RemoteLogSegmentMetadataUpdateRecord,
    SegmentLeaderEpochEntry,
    TopicIdPartitionEntry,
)
from ..topic_partition import EpochEntry


class State(IntEnum):
    """How far the copy of a segment, or its deletion, is (Kafka's `RemoteLogSegmentState`)."""

    COPY_STARTED = COPY_SEGMENT_STARTED
    COPY_FINISHED = COPY_SEGMENT_FINISHED
    DELETE_STARTED = DELETE_SEGMENT_STARTED
    DELETE_FINISHED = DELETE_SEGMENT_FINISHED


@dataclass(frozen=True, slots=True)
class TopicIdPartition:
    """A partition of a topic that has this id; another topic of the same name has another one."""

    topic: str
    topic_id: UUID
    index: int


@dataclass(frozen=True, slots=True)
class RemoteSegment:
    """A segment in remote storage, with all that Kafka's `RemoteLogSegmentMetadata` has.

    Attributes:
        end_offset: the last offset, inclusive.
        epochs: the leader epochs in it, each with its first offset in the segment, ascending.
        size: bytes of its log.
        custom: what the store wants to be told when it is asked for the segment.
        txn_index_empty: no transaction was aborted in it, and it has no transaction index.
    """

    partition: TopicIdPartition
    id: UUID
    start_offset: int
    end_offset: int
    broker_id: int
    max_timestamp: int
    event_timestamp: int
    epochs: tuple[EpochEntry, ...]
    size: int
    state: State = State.COPY_STARTED
    custom: bytes | None = None
    txn_index_empty: bool = False

    def with_state(self, state: State, *, broker_id: int, now_ms: int, custom: bytes | None = None) -> RemoteSegment:
        """The segment in its next state."""
        kept = self.custom if custom is None else custom
        return replace(self, state=state, broker_id=broker_id, event_timestamp=now_ms, custom=kept)

    def ends_of_epochs(self) -> Iterator[tuple[int, int, int]]:
        """(epoch, its first offset here, its last offset here), for each leader epoch of the segment."""
        for place, (epoch, first) in enumerate(self.epochs):
            is_last = place + 1 == len(self.epochs)
            yield epoch, first, self.end_offset if is_last else self.epochs[place + 1].start_offset - 1

    def belongs(self, epoch_for: Callable[[int], int], log_start: int) -> bool:
        """Whether the segment, as far as it is not below a log's start, has the leader epochs of that log."""
        parts = [(epoch, max(first, log_start), end) for epoch, first, end in self.ends_of_epochs() if end >= log_start]
        return all(epoch_for(first) == epoch == epoch_for(end) for epoch, first, end in parts)

    def end_in(self, epoch: int) -> int:
        """The last offset of a leader epoch of the segment."""
        return next(end for found, _, end in self.ends_of_epochs() if found == epoch)


def _id_entry(segment: RemoteSegment) -> RemoteLogSegmentIdEntry:
    named = segment.partition
    partition = TopicIdPartitionEntry(name=named.topic, id=named.topic_id, partition=named.index)
    return RemoteLogSegmentIdEntry(topic_id_partition=partition, id=segment.id)


def metadata_record(segment: RemoteSegment) -> RemoteLogSegmentMetadataRecord:
    """The record that introduces the segment."""
    return RemoteLogSegmentMetadataRecord(
        remote_log_segment_id=_id_entry(segment),
        start_offset=segment.start_offset,
        end_offset=segment.end_offset,
        broker_id=segment.broker_id,
        max_timestamp_ms=segment.max_timestamp,
        event_timestamp_ms=segment.event_timestamp,
        segment_leader_epochs=tuple(
            SegmentLeaderEpochEntry(leader_epoch=epoch, offset=offset) for epoch, offset in segment.epochs
        ),
        segment_size_in_bytes=segment.size,
        custom_metadata=segment.custom,
        remote_log_segment_state=int(segment.state),
        txn_index_empty=segment.txn_index_empty,
    )


def update_record(segment: RemoteSegment) -> RemoteLogSegmentMetadataUpdateRecord:
    """The record of a segment's later state."""
    return RemoteLogSegmentMetadataUpdateRecord(
        remote_log_segment_id=_id_entry(segment),
        broker_id=segment.broker_id,
        event_timestamp_ms=segment.event_timestamp,
        custom_metadata=segment.custom,
        remote_log_segment_state=int(segment.state),
    )


def partition_of(entry: TopicIdPartitionEntry) -> TopicIdPartition:
    """The partition that a record names. Raises ValueError for one without a topic id."""
    if entry.id is None:
        raise ValueError(f"partition {entry.partition} of {entry.name} has no topic id")
    return TopicIdPartition(entry.name, entry.id, entry.partition)


def segment_of(found: RemoteLogSegmentMetadataRecord) -> RemoteSegment:
    """The segment that a record introduces. Raises ValueError for one that cannot be."""
    named = found.remote_log_segment_id
    if named.id is None:
        raise ValueError("a remote segment has no id")
    return RemoteSegment(
        partition_of(named.topic_id_partition),
        named.id,
        found.start_offset,
        found.end_offset,
        found.broker_id,
        found.max_timestamp_ms,
        found.event_timestamp_ms,
        tuple(EpochEntry(each.leader_epoch, each.offset) for each in found.segment_leader_epochs),
        found.segment_size_in_bytes,
        State(found.remote_log_segment_state),
        found.custom_metadata,
        found.txn_index_empty,
    )
