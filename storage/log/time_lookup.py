"""Offsets by timestamp, for ListOffsets: the loop chooses the segment, a worker thread reads its batches."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator

from protocol.errors import InvalidRecord
from protocol.primitives import Buffer
from protocol.records.batch import BatchHeader
from protocol.records.build import Record
from protocol.records.cut import CutLimits, cut_records
from storage.files import File
from storage.log.log_segments import LogSegments, TimestampOffsetEpoch
from storage.log.unified_log import UnifiedLog
from storage.segments.batch_scan import headers
from storage.segments.segment import LogSegment
from storage.workers import Workers, folder_lane

_BARE = CutLimits(content=0, headers=0, header_content=0)


async def first_at_or_after(log: UnifiedLog, timestamp: int) -> TimestampOffsetEpoch | None:
    """The first record whose timestamp (ms) is at least `timestamp` (UnifiedLog.searchOffsetInLocalLog).

    Raises KafkaStorage, InvalidRecord.
    """
    log.check_online()
    try:
        return await _first_at_or_after(log.segments, log.services.workers, timestamp, log.log_start_offset)
    except OSError as error:
        raise log.failure(error) from error


async def largest(log: UnifiedLog) -> TimestampOffsetEpoch | None:
    """The first record that has the log's largest timestamp (KIP-734); None if the log is empty.

    Raises KafkaStorage, InvalidRecord.
    """
    log.check_online()
    try:
        return await _largest(log.segments, log.services.workers)
    except OSError as error:
        raise log.failure(error) from error


async def _first_at_or_after(
    segments: LogSegments, workers: Workers, timestamp: int, log_start_offset: int
) -> TimestampOffsetEpoch | None:
    segment = next((later for later in segments if later.largest_timestamp >= timestamp), None)
    if segment is None:
        return None

    def search(file: File) -> TimestampOffsetEpoch | None:
        known = segment.time_index.lookup(timestamp)
        start = segment.scan_start(max(known.offset, log_start_offset), file.pread)
        for position, header in headers(file.pread, start, segment.size):
            if header.max_timestamp < timestamp:
                continue
            found = None
            for record in _records(file, position, header):  # all are read, as in Kafka
                if found is None and record.timestamp >= timestamp and record.offset >= log_start_offset:
                    found = TimestampOffsetEpoch(record.timestamp, record.offset, header.leader_epoch)
            if found is not None:
                return found
        return None

    return await _in_worker(
        segments, segment, workers, search, lambda: _first_at_or_after(segments, workers, timestamp, log_start_offset)
    )


async def _largest(segments: LogSegments, workers: Workers) -> TimestampOffsetEpoch | None:
    segment = max(segments, key=lambda later: later.max_timestamp)
    timestamp, offset = segment.max_timestamp, segment.offset_of_max_timestamp

    def search(file: File) -> TimestampOffsetEpoch | None:
        for position, header in headers(file.pread, segment.scan_start(offset, file.pread), segment.size):
            if header.max_timestamp == timestamp:
                for record in _records(file, position, header):
                    if record.timestamp == timestamp:
                        return TimestampOffsetEpoch(record.timestamp, record.offset, header.leader_epoch)
                return None
        return None

    return await _in_worker(segments, segment, workers, search, lambda: _largest(segments, workers))


async def _in_worker(
    segments: LogSegments,
    segment: LogSegment,
    workers: Workers,
    search: Callable[[File], TimestampOffsetEpoch | None],
    again: Callable[[], Awaitable[TimestampOffsetEpoch | None]],
) -> TimestampOffsetEpoch | None:
    """What the search finds in the segment's file; if it is removed meanwhile, what it finds `again` in the others."""
    try:
        file = segment.file.acquire()
        try:
            return await workers.lane(folder_lane("lookup", segment.folder)).call(lambda: search(file))
        finally:
            segment.file.release()
    except FileNotFoundError:
        if segments.floor(segment.base_offset) is segment:
            raise
    return await again()


def _records(file: File, position: int, header: BatchHeader) -> Iterator[Record]:
    return records_of(file.pread(header.size, position), header)


def records_of(batch: Buffer, header: BatchHeader) -> Iterator[Record]:
    """The records before any damage, without their content; raises InvalidRecord where it begins.

    They are unpacked a piece at a time: nothing is taken of the budget that checks of produced batches wait for.
    """
    try:
        for record, _ in cut_records(batch, header, 0, header.base_offset, _BARE, _free):
            yield record
    except ValueError as error:
        raise InvalidRecord(f"The batch at offset {header.base_offset} cannot be read: {error}") from error


def _free(_work: int) -> None:
    """Let the reading go on: a lookup reads whole batches, as in Kafka."""
