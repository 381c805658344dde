"""Appends to the metadata log, made durable many at a time.

What is appended while a batch is being synced is joined into the next batch, as Kafka's `BatchAccumulator` does: a
batch is all there or not at all, so the records of one append stay together. The next batch is written only when the
one before it is on the device, so a power failure can tear no other than the last.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import structlog

from controller.quorum.metadata_batches import MAX_BATCH_BYTES, ControlBatch, MetadataLogError, NoRoomError, OpenBatch
from protocol.errors import InvalidRequest, KafkaStorage
from protocol.records.batch import NO_TIMESTAMP, read_header
from storage.append_types import AppendOrigin
from storage.files import is_transient
from storage.log.log_segments import LogOffsetMetadata
from storage.log.unified_log import UnifiedLog
from storage.log.validator import Validated

logger = structlog.get_logger(__name__)


class GroupCommit:
    """The only writer of a log. Everything runs on the loop; only syncs are done in a worker thread.

    Attributes:
        epoch: the leader epoch of the batches.
        timestamp: that of the last batch, in ms; none has an earlier one than the batch before.
        next_offset: the offset of the next record.
        durable_end: the offset after the last record that is on the device.
        bytes_written: the size of all batches that are on the device.
        commits, commit_ms: how many batches became durable, and how long that took from the write on, together.
        roll_next: begin a new segment with the next batch.
        failure: why nothing can be appended any more.
        on_durable: called when `durable_end` has moved.

    `on_refused` is called when records were refused for want of room, before anything else can be appended;
    `on_failure` once, with the reason, when nothing can be made durable any more.
    """

    def __init__(
        self,
        log: UnifiedLog,
        timestamp: int,
        on_refused: Callable[[NoRoomError], None],
        on_failure: Callable[[str], None],
    ) -> None:
        self._log = log
        self._on_refused = on_refused
        self._on_failure = on_failure
        self._max_bytes = min(MAX_BATCH_BYTES, log.config.segment_bytes)
        self.epoch = 0
        self.timestamp = timestamp
        self.next_offset = self.durable_end = log.log_end_offset
        self.bytes_written = 0
        self.commits, self.commit_ms = 0, 0.0
        self._written_ms = 0.0
        self.roll_next = False
        self.failure: str | None = None
        self.on_durable: Callable[[], None] = lambda: None
        self._queue: deque[OpenBatch | ControlBatch] = deque()
        self._writing: OpenBatch | ControlBatch | None = None
        self._scheduled = False
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        log.flusher.on_flush = self._flushed
        log.on_offline = lambda _, error: self.fail(f"writing the metadata log failed: {error}")

    def append(self, values: Sequence[bytes]) -> int:
        """Append the values of records, all in one batch; return the last one's offset.

        Raises InvalidRequest if they do not fit in a batch, and MetadataLogError if the log takes no more.
        """
        self.check_usable()
        batch = self._queue[-1] if self._queue else None
        if batch is None or not batch.add(values):
            batch = OpenBatch(self.next_offset, self._max_bytes)
            if not batch.add(values):
                raise InvalidRequest(
                    f"The request would write {len(values)} metadata records of {sum(map(len, values))} bytes; the "
                    f"most that take effect together is a batch of {self._max_bytes} bytes. Ask for less at once, with "
                    "shorter names and values."
                )
            self._queue.append(batch)
        return self._appended(batch)

    def append_control(self, records: Sequence[Any]) -> int:
        """Append a batch of control records; return the last one's offset. Raises MetadataLogError."""
        self.check_usable()
        batch = ControlBatch(self.next_offset, records)
        self._queue.append(batch)
        return self._appended(batch)

    def _appended(self, batch: OpenBatch | ControlBatch) -> int:
        self.next_offset = batch.last_offset + 1
        if self._writing is None and not self._scheduled:
            # Not at once: what else is appended in this turn of the loop joins the batch.
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._write_next)
        return batch.last_offset

    def durable(self, offset: int) -> asyncio.Future[None]:
        """Done when the record at `offset` is on the device; fails with MetadataLogError if it may never be."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if offset < self.durable_end:
            done.set_result(None)
        elif self.failure is not None:
            done.set_exception(MetadataLogError(self.failure))
        elif offset >= self.next_offset:
            done.set_exception(MetadataLogError(f"Nothing with the offset {offset} was appended, or it was refused."))
        else:
            self._waiters.append((offset, done))
        return done

    def check_usable(self) -> None:
        """Raises MetadataLogError if nothing can be appended any more."""
        if self.failure is not None:
            raise MetadataLogError(self.failure)

    def _write_next(self) -> None:
        self._scheduled = False
        if self._writing is not None or not self._queue or self.failure is not None:
            return
        batch = self._writing = self._queue.popleft()
        try:
            self._write(batch)
        except KafkaStorage as error:
            if not self._log.is_offline:  # else `fail` was called
                self._refuse(error)
        except Exception as error:  # waiting callers must be answered, whatever happened
            logger.exception("unexpected error while the metadata log was written")
            self.fail(f"writing the metadata log failed: {error}")

    def _write(self, batch: OpenBatch | ControlBatch) -> None:
        log = self._log
        if self.roll_next:
            self._roll()
        clock = log.services.clock
        now_ms, self._written_ms = clock.wall_ms(), clock.monotonic_ms()
        timestamp = max(now_ms, self.timestamp)
        data = memoryview(batch.close(self.epoch, timestamp))
        validated = Validated(data, read_header(data), timestamp, NO_TIMESTAMP)
        info = log.append_validated(validated, leader_epoch=self.epoch, origin=AppendOrigin.COORDINATOR, now_ms=now_ms)
        assert info.last_offset == batch.last_offset, "this is the only writer"
        self.timestamp = timestamp
        self.bytes_written += len(data)
        log.flush()

    def _roll(self) -> None:
        """Begin a new segment, if there is room. Only now: everything in the one before it is on the device."""
        try:
            self._log.roll()
        except OSError as error:
            if not is_transient(error):
                raise self._log.fail(error) from error
            self._log.services.note_shortage(self._log.folder, error)
            return
        self.roll_next = False

    def _flushed(self, end: LogOffsetMetadata) -> None:
        batch = self._writing
        if batch is None or end.offset <= batch.last_offset:
            return
        self._writing = None
        self.durable_end = end.offset
        self.commits += 1
        self.commit_ms += self._log.services.clock.monotonic_ms() - self._written_ms
        waiters, self._waiters = self._waiters, []
        for offset, done in waiters:
            if offset >= end.offset:
                self._waiters.append((offset, done))
            elif not done.done():
                done.set_result(None)
        self._write_next()
        self.on_durable()

    def _refuse(self, cause: KafkaStorage) -> None:
        """Refuse the batch, of which nothing is in the log, and those after it, which may depend on it."""
        self._drop_queue()
        self.next_offset = self.durable_end
        text = f"The metadata log took nothing: {cause.message}"
        self._fail_waiters(lambda: NoRoomError(text))
        self._on_refused(NoRoomError(text))  # before those who wait are woken, in the next turn of the loop

    def fail(self, reason: str) -> None:
        """Refuse everything from now on; the first reason counts."""
        # After a failed sync it is not known what reached the device, so nothing may follow it in this process.
        if self.failure is not None:
            return
        self.failure = reason
        self._drop_queue()
        self._fail_waiters(lambda: MetadataLogError(reason))
        self._on_failure(reason)

    def _drop_queue(self) -> None:
        self._writing = None
        self._queue.clear()

    def _fail_waiters(self, error: Callable[[], MetadataLogError]) -> None:
        waiters, self._waiters = self._waiters, []
        for _, done in waiters:
            if not done.done():
                done.set_exception(error())

    async def drain(self) -> None:
        """Wait until everything that was appended is durable, refused or lost."""
        while self.failure is None and self.durable_end < self.next_offset:
            done = self.durable(self.next_offset - 1)
            await asyncio.wait([done])
            done.exception()
