"""Reading a segment that must be intact: compaction drops whatever it does not read."""

from __future__ import annotations

from collections.abc import Iterator

from protocol.records.batch import BatchHeader
from storage.log.segment_recovery import whole_batches
from storage.segments.segment import LogSegment


def batches_of(segment: LogSegment, start: int = 0) -> Iterator[tuple[BatchHeader, memoryview]]:
    """(header, bytes) of every batch from position `start`, where a batch must begin, to the segment's end.

    Raises OSError, and ValueError if anything but a batch comes before the end: Kafka's cleaner then leaves the log
    alone (CorruptRecordException).
    """
    end = start
    for position, header, batch in whole_batches(segment.file.open(), start, segment.size):
        yield header, batch
        end = position + header.size
    if end != segment.size:
        raise ValueError(f"{segment.file.path} holds no whole batch at {end}, though it has {segment.size} bytes")
