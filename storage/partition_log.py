"""One partition's log: appends, reads and truncates (Kafka's UnifiedLog and LocalLog).

Everything here runs on the loop and never awaits; only `ReadPlan.read`, flushes and lookups by time use worker threads.
A disk error takes the log offline for good: from then on every call raises KafkaStorage, and nothing is acknowledged.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

import structlog

from protocol.errors import KafkaStorage, OffsetOutOfRange, RecordBatchTooLarge
from protocol.records.batch import set_offsets_and_epoch
from storage.append_types import AppendInfo, AppendOrigin, LogConfig
from storage.files import FileSystem
from storage.group_commit import FlushWork, GroupCommit
from storage.leader_epochs import LeaderEpochs
from storage.log_segments import LogSegments
from storage.producer_state import Duplicate, ProducerStateManager
from storage.read_plan import ReadPlan
from storage.segment import LogOffsetMetadata, LogSegment
from storage.validator import validate
from storage.workers import Workers
from timing.clock import Clock

logger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class LogServices:
    """The outside world as a log sees it."""

    fs: FileSystem
    clock: Clock
    workers: Workers
    random: random.Random


@dataclass(slots=True)
class LoadedState:
    """What recovery found out about a folder; `PartitionLog` takes it over."""

    segments: LogSegments
    producers: ProducerStateManager
    leader_epochs: LeaderEpochs
    log_start_offset: int
    log_end_offset: int
    recovery_point: int


class PartitionLog:
    """The log of `topic`-`partition` in `folder`.

    Attributes:
        log_start_offset: first offset that may be read.
        log_end_offset: the next offset to be given out.
        flushed: how far the log is on the device for sure; its offset is the recovery point.
        on_flush: called with `flushed` when it advances.
        config: the topic's configuration; replace it when that changes.
    """

    __slots__ = (
        "_commit",
        "_dir_dirty",
        "_fs",
        "_generation",
        "_latest_epoch",
        "_name",
        "_offline",
        "_services",
        "_unflushed",
        "config",
        "flushed",
        "folder",
        "leader_epochs",
        "log_end_offset",
        "log_start_offset",
        "on_flush",
        "on_offline",
        "partition",
        "producers",
        "segments",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        services: LogServices,
        folder: str,
        topic: str,
        partition: int,
        topic_id: UUID | None,
        config: LogConfig,
        state: LoadedState,
    ) -> None:
        self._services = services
        self._fs = services.fs
        self.folder = folder
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.config = config
        self.segments = state.segments
        self.producers = state.producers
        self.leader_epochs = state.leader_epochs
        self.log_start_offset = state.log_start_offset
        self.log_end_offset = state.log_end_offset
        self.flushed = LogOffsetMetadata(state.recovery_point)
        self.on_flush: Callable[[LogOffsetMetadata], None] | None = None
        self.on_offline: Callable[[PartitionLog, Exception], None] | None = None
        self._name = f"{topic}-{partition}"
        self._latest_epoch = state.leader_epochs.latest
        self._offline: Exception | None = None
        self._generation = 0  # counts truncations: a flush that began before one proves nothing after it
        self._dir_dirty = False
        self._unflushed: list[LogSegment] = []
        self._commit = GroupCommit(services.workers, self._prepare_flush, self._flush_done, self.fail)

    # -- appending

    def append_as_leader(
        self, batch: memoryview, *, leader_epoch: int, origin: AppendOrigin, now_ms: int
    ) -> AppendInfo:
        """Check one batch, give it offsets and write it; never awaits. The order of steps is fixed (DESIGN 3).

        `batch` should be writable: base offset and leader epoch are patched into it. A duplicate of one of the
        producer's last batches appends nothing and answers the first append's offsets.

        Raises what `validator.validate` and `ProducerStateManager.check` raise, RecordBatchTooLarge for a batch that fits
        no segment, and KafkaStorage after a disk error.
        """
        if self._offline is not None:
            raise self.storage_error()
        config = self.config
        data, header, max_timestamp, log_append_time = validate(batch, config, origin, now_ms, self._name)
        base_offset = self.log_end_offset
        last_offset = base_offset + header.last_offset_delta
        size = len(data)
        if size > config.segment_bytes:
            raise RecordBatchTooLarge(
                f"Message batch size is {size} bytes in append to partition {self._name}, which exceeds the maximum "
                f"configured segment size of {config.segment_bytes}."
            )
        try:
            if leader_epoch != self._latest_epoch:
                self.assign_epoch(leader_epoch, base_offset)
            segment = self.segments.active
            if segment.should_roll(config, size, max_timestamp, last_offset, now_ms):
                segment = self.roll()
            update = None
            if header.producer_id >= 0:
                update = self.producers.check(data, header, origin, now_ms)
                if isinstance(update, Duplicate):
                    return self._duplicate(update)
            set_offsets_and_epoch(data, 0, base_offset, leader_epoch)
            position = segment.size
            segment.append(data, last_offset, max_timestamp, base_offset)
        except OSError as error:
            raise self._failed_append(error) from error
        if update is not None:
            self._publish(update, segment, LogOffsetMetadata(base_offset, segment.base_offset, position))
        self.log_end_offset = last_offset + 1
        if last_offset + 1 - self.flushed.offset >= config.flush_messages:
            self._commit.request()
        return AppendInfo(base_offset, last_offset, log_append_time, self.log_start_offset)

    def _duplicate(self, original: Duplicate) -> AppendInfo:
        return AppendInfo(
            original.first_offset, original.last_offset, original.timestamp, self.log_start_offset, duplicate=True
        )

    def _failed_append(self, error: OSError) -> KafkaStorage:
        active = self.segments.active
        try:
            active.cut_back()
        except OSError as second:
            logger.error("append left a part behind", partition=self._name, error=str(second))
        return self.fail(error)

    def assign_epoch(self, leader_epoch: int, start_offset: int) -> None:
        """Note that `leader_epoch` starts at an offset, unless it is the latest already."""
        self.leader_epochs.assign(leader_epoch, start_offset)
        self._latest_epoch = leader_epoch

    def roll(self) -> LogSegment:
        """Seal the active segment and start the next one at the log's end; raises OSError."""
        active = self.segments.active
        base_offset = self.log_end_offset
        if active.base_offset == base_offset:
            return active
        active.seal()
        segment = self._new_segment(base_offset)
        self.segments.add(segment)
        self._unflushed.append(active)
        self.producers.take_snapshot(base_offset)
        self._commit.request()
        return segment

    def _new_segment(self, base_offset: int) -> LogSegment:
        services, config = self._services, self.config
        bound = min(config.segment_jitter_ms, config.segment_ms)
        jitter_ms = services.random.randrange(bound) if bound > 0 else 0
        self._dir_dirty = True
        return LogSegment.create(
            self._fs, self.folder, base_offset, config, jitter_ms=jitter_ms, now_ms=services.clock.wall_ms()
        )

    # -- offsets

    @property
    def end(self) -> LogOffsetMetadata:
        """Where the next append goes."""
        active = self.segments.active
        return LogOffsetMetadata(self.log_end_offset, active.base_offset, active.size)

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return self.segments.size

    def locate(self, offset: int) -> LogOffsetMetadata:
        """Segment and position of the batch that holds `offset`; may read a few kilobytes.

        Raises OffsetOutOfRange outside the log, KafkaStorage.
        """
        if offset == self.log_end_offset:
            return self.end
        self._check_range(offset)
        segment = self.segments.floor(offset)
        try:
            while segment is not None:
                found = segment.locate(offset, segment.file.open().pread)
                if found is not None:
                    return LogOffsetMetadata(offset, segment.base_offset, found[0])
                segment = self.segments.higher(segment.base_offset)
        except OSError as error:
            raise self.fail(error) from error
        return self.end

    def _check_range(self, offset: int) -> None:
        if offset < self.log_start_offset or offset > self.log_end_offset:
            raise OffsetOutOfRange(
                f"Received request for offset {offset} for partition {self._name}, but we only have log segments from "
                f"offset {self.log_start_offset} up to {self.log_end_offset}."
            )

    # -- reading

    def plan_read(
        self, start_offset: int, max_bytes: int, upper: LogOffsetMetadata, min_one_message: bool
    ) -> ReadPlan:
        """A read from `start_offset` of at most `max_bytes` and not past `upper` (Kafka's LocalLog.read).

        Raises OffsetOutOfRange outside [log start, log end], KafkaStorage when the log is offline.
        """
        if self._offline is not None:
            raise self.storage_error()
        if not self.log_start_offset <= start_offset <= self.log_end_offset:
            self._check_range(start_offset)
        segment = self.segments.floor(start_offset) if start_offset < upper.offset else None
        return ReadPlan(
            self.segments, self._services.workers, self.fail, segment, start_offset, max_bytes, upper, min_one_message
        )

    # -- flushing

    def flush(self) -> None:
        """Ask for a flush of all that is appended by now; `on_flush` tells when it is done."""
        if self._offline is None:
            self._commit.request()

    def flush_now(self) -> None:
        """Flush on this thread, with what a clean shutdown needs too. Raises KafkaStorage."""
        work = self._prepare_flush(with_active_indexes=True)
        if work is None:
            return
        try:
            work.run()
        except OSError as error:
            raise self.fail(error) from error
        finally:
            work.release()
        self._flush_done(work)

    def _prepare_flush(self, with_active_indexes: bool = False) -> FlushWork | None:
        if self._offline is not None:
            return None
        if self.flushed.offset >= self.log_end_offset and not self._unflushed and not self._dir_dirty:
            return None
        active = self.segments.active
        sealed, self._unflushed = self._unflushed, []
        folder = self.folder if self._dir_dirty else None
        self._dir_dirty = False
        handles = [segment.file for segment in (*sealed, active)]
        names = [path for segment in sealed for path in segment.index_paths()]
        names += self.producers.snapshot_paths(sealed)
        if with_active_indexes:
            active.seal()
            names += active.index_paths()
        files = [handle.acquire() for handle in handles]

        def release() -> None:
            for handle in handles:
                handle.release()

        return FlushWork(self._fs, self.end, self._generation, files, names, folder, release)

    def _flush_done(self, work: FlushWork) -> None:
        if work.generation != self._generation or work.target.offset <= self.flushed.offset:
            return
        self.flushed = work.target
        if self.on_flush is not None:
            self.on_flush(work.target)

    # -- going offline

    @property
    def is_offline(self) -> bool:
        return self._offline is not None

    def fail(self, error: Exception) -> KafkaStorage:
        """A disk error: take the log offline. Returns what to raise."""
        if self._offline is None:
            self._offline = error
            logger.error("log is offline", partition=self._name, folder=self.folder, error=str(error))
            if self.on_offline is not None:
                self.on_offline(self, error)
        return self.storage_error()

    def storage_error(self) -> KafkaStorage:
        """What every call on an offline log raises."""
        return KafkaStorage(f"The log of partition {self._name} in {self.folder} is offline: {self._offline}")
