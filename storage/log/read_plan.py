"""A read of one log that has been planned but not done: which bytes, and whether memory has them (LogSegment.read).

`FileRecords` are records that stay in their segment's file until they are sent.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias, TypeVar

from protocol.errors import KafkaError, KafkaStorage, OffsetOutOfRange
from protocol.primitives import Buffer, UnreadBytes
from storage.log.log_segments import LogOffsetMetadata, LogSegments
from storage.segments.batch_scan import Read
from storage.segments.segment import LogSegment
from storage.segments.segment_files import WouldBlockError
from storage.segments.txn_index import AbortedTxn, collect_aborted
from storage.workers import Workers, folder_lane


class FileRecords(UnreadBytes):
    """`size` bytes of a segment's file from `position` on; they cost no memory, however slow the client is.

    What is in a file does not change, and one that is held stays readable when its segment is removed.
    """

    __slots__ = ("_failure", "_position", "_segment", "_size", "_workers")

    def __init__(
        self,
        segment: LogSegment,
        position: int,
        size: int,
        workers: Workers,
        failure: Callable[[OSError], KafkaError],
    ) -> None:
        self._segment = segment
        self._position = position
        self._size = size
        self._workers = workers
        self._failure = failure

    def __len__(self) -> int:
        return self._size

    def hold(self) -> Callable[[], None]:
        try:
            self._segment.file.acquire()
        except OSError as error:
            raise self._failed(error) from error
        return self._segment.file.release

    def try_read(self, at: int, size: int) -> Buffer | None:
        try:
            return self._segment.file.read_nowait(size, self._position + at)
        except WouldBlockError:
            return None
        except OSError as error:
            raise self._failed(error) from error

    async def read(self, at: int, size: int) -> Buffer:
        try:
            pread = self._segment.file.acquire().pread
            workers = self._workers.lane(folder_lane("read", self._segment.folder))
            try:
                data = await workers.call(partial(pread, size, self._position + at))
            finally:
                self._segment.file.release()
        except OSError as error:
            raise self._failed(error) from error
        if len(data) < size:
            raise KafkaStorage(f"{self._segment.file.path} ends before its records do.")
        return data

    def _failed(self, error: OSError) -> KafkaError:
        if isinstance(error, FileNotFoundError):  # retention or a deletion of the topic, not the device
            return KafkaStorage(f"{self._segment.file.path} was removed.")
        return self._failure(error)


T = TypeVar("T")

Records: TypeAlias = Buffer | FileRecords

WORTH_LEAVING = 16 * 1024
"""Fewer bytes than these are always read at once."""


class ReadPlan:
    """Bytes from the batch that holds `start_offset` on, at most `max_bytes`, never past `upper`.

    The range may end inside a batch, as Kafka's answers do. With `min_one_message` the first batch comes whole even if
    it is larger than `max_bytes`. `records` and `try_records` leave data of more than `at_once` bytes in its file.

    Attributes (all but the first are known once the read is done):
        upper: the latest point at which the read ends.
        start: where the data starts: the requested offset, its segment and position.
        segment: the segment read; None if nothing was.
        first_entry_incomplete: the data ends inside its first batch; Kafka then sends nothing (Fetch v3 and later).
    """

    __slots__ = (
        "_at_once",
        "_failure",
        "_min_one",
        "_segments",
        "_workers",
        "first_entry_incomplete",
        "max_bytes",
        "segment",
        "start",
        "start_offset",
        "upper",
    )

    is_cold = False
    """Whether the read begins in remote storage (`storage.tier.cold_read`)."""

    def __init__(
        self,
        segments: LogSegments,
        workers: Workers,
        failure: Callable[[OSError], KafkaError],
        segment: LogSegment | None,
        start_offset: int,
        *,
        max_bytes: int,
        upper: LogOffsetMetadata,
        min_one_message: bool,
        at_once: int,
    ) -> None:
        self._segments = segments
        self._workers = workers
        self._failure = failure
        self.segment = segment
        self.start_offset = start_offset
        self.max_bytes = max_bytes
        self.upper = upper
        self._at_once = at_once
        self._min_one = min_one_message
        self.start = LogOffsetMetadata(start_offset)
        self.first_entry_incomplete = False

    def try_read(self) -> Buffer | None:
        """The bytes, or None if that would wait for the device: then `await read()`. Raises KafkaStorage."""
        return self._now(self._read)

    async def read(self) -> Buffer:
        """The bytes, read in a worker thread. Raises KafkaStorage, OffsetOutOfRange if they were removed meanwhile."""
        return await self._later(self._read)

    def try_records(self) -> Records | None:
        """The same as `try_read`, but data of more than `at_once` bytes stays in its file."""
        return self._now(self._read_or_leave)

    async def records(self) -> Records:
        """The same as `read`, but data of more than `at_once` bytes stays in its file."""
        return await self._later(self._read_or_leave)

    def _now(self, take: Callable[[LogSegment, Read], T | None]) -> T | bytes | None:
        while (segment := self.segment) is not None:
            try:
                if segment is not self._segments.active and not segment.offset_index.is_loaded:
                    return None
                data = take(segment, segment.file.read_nowait)
            except (WouldBlockError, FileNotFoundError):
                return None
            except OSError as error:
                raise self._failure(error) from error
            if data is not None:
                return data
            self.segment = self._segments.higher(segment.base_offset)
        return b""

    async def _later(self, take: Callable[[LogSegment, Read], T | None]) -> T | bytes:
        while (segment := self.segment) is not None:
            try:
                pread = segment.file.acquire().pread
                workers = self._workers.lane(folder_lane("read", segment.folder))
                try:
                    data = await workers.call(partial(take, segment, pread))
                finally:
                    segment.file.release()
            except FileNotFoundError as error:
                self._find_again(segment, error)
                continue
            except OSError as error:
                raise self._failure(error) from error
            if data is not None:
                return data
            self.segment = self._segments.higher(segment.base_offset)
        return b""

    def aborted_transactions(self, size: int, log_end_offset: int) -> list[AbortedTxn]:
        """The aborted transactions that touch the `size` bytes read.

        The segment may have been removed or compacted meanwhile: its own transaction index still counts.
        """
        segment = self.segment
        if segment is None:
            return []
        upper = segment.offset_index.upper_bound(self.start.position + size)
        if upper is None:
            higher = self._segments.higher(segment.base_offset)
            upper = log_end_offset if higher is None else higher.base_offset
        following = self._segments.from_offset(segment.base_offset)
        found = collect_aborted((segment.txn_index for segment in following), self.start_offset, upper)
        if following[0] is segment:
            return found
        known, _ = segment.txn_index.collect(self.start_offset, upper)
        return list(dict.fromkeys(known + found))

    def _find_again(self, gone: LogSegment, error: FileNotFoundError) -> None:
        """Look up the segment again if retention or compaction has removed it meanwhile; else its file is missing."""
        found = self._segments.floor(self.start_offset)
        if found is gone:
            raise self._failure(error) from error
        if found is None:
            raise OffsetOutOfRange(f"The records at offset {self.start_offset} were removed.") from error
        self.segment = found

    def _read(self, segment: LogSegment, read: Read) -> Buffer | None:
        """The data, or None if this segment has nothing at or after the offset, but the next one may."""
        count = self._locate(segment, read)
        if count is None:
            return None
        return read(count, self.start.position) if count > 0 else b""

    def _read_or_leave(self, segment: LogSegment, read: Read) -> Records | None:
        count = self._locate(segment, read)
        if count is None:
            return None
        if count > max(self._at_once, WORTH_LEAVING):
            return FileRecords(segment, self.start.position, count, self._workers, self._failure)
        return read(count, self.start.position) if count > 0 else b""

    def _locate(self, segment: LogSegment, read: Read) -> int | None:
        """Find `start`; return how many bytes there are to read, or None if the next segment may have some."""
        size = segment.size
        found = segment.locate(self.start_offset, read)
        if found is None:
            return None
        position, batch_bytes = found
        self.start = LogOffsetMetadata(self.start_offset, segment.base_offset, position)
        upper = self.upper
        if segment.base_offset < upper.segment_base:
            end = size
        elif segment.base_offset == upper.segment_base and upper.position >= 0:
            end = min(upper.position, size)
        else:
            return 0
        wanted = max(self.max_bytes, batch_bytes) if self._min_one else self.max_bytes
        self.first_entry_incomplete = wanted < batch_bytes
        return max(0, min(end - position, wanted))


def out_of_range(partition: str, offset: int, start: int, end: int) -> OffsetOutOfRange:
    """What is raised for a read that is not between the log's start and its end."""
    return OffsetOutOfRange(
        f"Received request for offset {offset} for partition {partition}, but we only have log segments from "
        f"offset {start} up to {end}."
    )
