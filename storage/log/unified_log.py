"""One partition's log: appends and reads (Kafka's UnifiedLog and LocalLog).

Everything here runs on the loop and never awaits; only `ReadPlan.read` and flushes use worker threads. Whatever else is
done with a log has a module of its own, such as `follower_append` and `retention`. A disk error other than a lack of
room or of descriptors takes the log offline for good: every call raises KafkaStorage, nothing is acknowledged.

How it works: a log is a list of segments, of which only the last is appended to. An append goes through fixed steps,
which docs/design.md lists. Whatever refuses it comes before the write, so that a refusal leaves memory as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import structlog

from protocol.errors import KafkaError, KafkaStorage, NotLeaderOrFollower, OffsetOutOfRange
from protocol.records.batch import set_place
from storage.append_types import AppendInfo, AppendOrigin, LogConfig, new_append_info
from storage.files import is_transient
from storage.log.log_flusher import LogFlusher
from storage.log.log_segments import LogOffsetMetadata, new_offset_metadata
from storage.log.log_services import NO_TIER, LogHost, LogServices, Tier
from storage.log.read_plan import ReadPlan, out_of_range
from storage.log.recovery import LoadedState
from storage.log.segment_removal import SegmentRemoval
from storage.log.validator import Validated, larger_than_a_segment, validate
from storage.producers.producer_state import CompletedTxn, Duplicate
from storage.segments.segment import LogSegment
from storage.workers import folder_lane

logger = structlog.get_logger(__name__)


class UnifiedLog:
    """The log of `topic`-`partition` in `folder`.

    Attributes:
        name: `topic-partition`.
        log_start_offset: first offset that may be read.
        log_end_offset: the offset of the next record.
        on_offline: called once, when a disk error takes the log offline.
        on_start: called when `log_start_offset` has risen.
        config: the topic's configuration; replace it when that changes.
        cleaned_to: the offset up to which the log has been compacted; None if it never was.
        held_back: appends are refused for a moment, until the log has moved to another folder.
        high_watermark: what the checkpoint had when the log was loaded, then what the partition says.
        tier: what is in remote storage of the log.
    """

    __slots__ = (
        "_offline",
        "cleaned_to",
        "config",
        "flusher",
        "folder",
        "held_back",
        "high_watermark",
        "host",
        "leader_epochs",
        "log_end_offset",
        "log_start_offset",
        "name",
        "on_offline",
        "on_start",
        "partition",
        "producers",
        "removal",
        "segments",
        "services",
        "tier",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        services: LogServices,
        folder: str,
        *,
        topic: str,
        partition: int,
        topic_id: UUID | None,
        config: LogConfig,
        state: LoadedState,
        host: LogHost,
    ) -> None:
        self.services, self.folder = services, folder
        self.topic, self.partition, self.topic_id = topic, partition, topic_id
        self.config, self.host = config, host
        self.held_back, self.high_watermark = False, 0
        self.cleaned_to: int | None = None
        self.segments, self.producers = state.segments, state.producers
        self.leader_epochs = state.leader_epochs
        self.log_start_offset, self.log_end_offset = state.log_start_offset, state.log_end_offset
        self.on_offline: Callable[[UnifiedLog, Exception], None] | None = None
        self.on_start: Callable[[], None] | None = None
        self.tier: Tier = NO_TIER
        self.name = f"{topic}-{partition}"
        self._offline: KafkaError | None = None
        self.flusher = LogFlusher(
            services,
            folder,
            segments=self.segments,
            producers=self.producers,
            epochs=self.leader_epochs,
            end=lambda: self.end,
            failed=self.fail,
        )
        self.removal = SegmentRemoval(services, folder, self.flusher, self.fail)

    # -- appending

    def append_as_leader(
        self, batch: memoryview, *, leader_epoch: int, origin: AppendOrigin, now_ms: int, at_once: bool = False
    ) -> AppendInfo:
        """Check one batch, give it offsets and write it; never awaits.

        `batch` should be writable: base offset and leader epoch are patched into it. A duplicate of one of the
        producer's last batches appends nothing, and the first append's offsets are returned.

        Raises what `validator.validate` (which `at_once` is for) and `ProducerStateManager.check` raise,
        RecordBatchTooLarge for a batch that fits no segment, and KafkaStorage after a disk error.
        """
        if self._offline is not None or self.held_back:
            self.check_appendable()
        validated = validate(batch, self.config, origin, now_ms, self.name, at_once=at_once)
        return self.append_validated(validated, leader_epoch=leader_epoch, origin=origin, now_ms=now_ms)

    def check_appendable(self) -> None:
        """Raises KafkaStorage if the log is offline, NotLeaderOrFollower while it changes its folder."""
        if self._offline is not None:
            raise self.storage_error()
        if self.held_back:
            raise NotLeaderOrFollower(f"The log of {self.name} is changing its folder.")

    def append_validated(
        self, validated: Validated, *, leader_epoch: int, origin: AppendOrigin, now_ms: int
    ) -> AppendInfo:
        """Append what `validate` returned for the log's present configuration; see `append_as_leader`.

        If time has passed since, the caller has called `check_appendable`.
        """
        config = self.config
        data, header, max_timestamp, log_append_time = validated
        base_offset = self.log_end_offset
        last_offset = base_offset + header.last_offset_delta
        size = len(data)
        if size > config.segment_bytes:
            raise larger_than_a_segment(self.name, size, config.segment_bytes)
        try:
            if leader_epoch != self.leader_epochs.latest:
                self.leader_epochs.assign(leader_epoch, base_offset)
            segment = self.segments.active
            if segment.should_roll(config, size, max_timestamp, last_offset, now_ms):
                segment = self.roll()
            update = None
            if header.producer_id >= 0:
                checked = self.producers.check(data, header, origin)
                if isinstance(checked, Duplicate):
                    found = checked.first_offset, checked.last_offset, checked.timestamp
                    return AppendInfo(*found, self.log_start_offset, duplicate=True)
                update = checked
            set_place(data, 0, base_offset, header.batch_length, leader_epoch)
            segment.append(data, last_offset, max_timestamp, base_offset)
        except OSError as error:
            raise self.failed_append(error) from error
        self.log_end_offset = last_offset + 1
        if update is not None:
            completed = self.producers.publish(update, base_offset)
            if completed is not None and completed.is_aborted:
                self.note_aborted(segment, completed)
        if last_offset + 1 - self.flusher.flushed.offset >= config.flush_messages:
            self.flusher.request()
        return new_append_info((base_offset, last_offset, log_append_time, self.log_start_offset, False))

    def note_aborted(self, segment: LogSegment, completed: CompletedTxn) -> None:
        """Note an aborted transaction; without room it is written with the next one, or when the segment is sealed."""
        try:
            segment.note_aborted(completed)
        except OSError as error:
            if not is_transient(error):
                raise self.fail(error) from error
            self.services.note_shortage(self.folder, error)

    def failed_append(self, error: OSError) -> KafkaError:
        """Cut off what a failed append left; return what to raise."""
        try:
            self.segments.active.cut_back()
        except OSError as second:
            logger.error("failed append left a partial batch", partition=self.name, error=str(second))
            return self.fail(error)
        return self.failure(error)

    def begin_epoch(self, leader_epoch: int) -> None:
        """Note that `leader_epoch` starts at the log's end; it is written with its first flushed records."""
        self.leader_epochs.begin(leader_epoch, self.log_end_offset)

    def roll(self, at: int = 0) -> LogSegment:
        """Seal the active segment and start the next one at the log's end, or at a later offset. Raises OSError."""
        active = self.segments.active
        base_offset = max(at, self.log_end_offset)
        if active.base_offset == base_offset:
            return active
        active.seal()
        segment = self.new_segment(base_offset, sealed=active)
        self.segments.add(segment)
        self.producers.take_snapshot(base_offset)
        self.flusher.request()
        return segment

    def new_segment(self, base_offset: int, sealed: LogSegment | None) -> LogSegment:
        """Make the files of an empty segment; `sealed` is the segment before it. Raises OSError."""
        services, config = self.services, self.config
        segment = LogSegment.create(
            services.fs,
            self.folder,
            base_offset,
            config,
            jitter_ms=services.jitter_ms(config),
            now_ms=services.clock.wall_ms(),
        )
        self.flusher.note_new_segment(sealed)
        return segment

    # -- offsets

    @property
    def end(self) -> LogOffsetMetadata:
        """The position of the next append."""
        active = self.segments.active
        return new_offset_metadata((self.log_end_offset, active.base_offset, active.size))

    @property
    def size(self) -> int:
        return self.segments.size

    @property
    def local_log_start_offset(self) -> int:
        """The first offset that can be read from the log's own files; below it a tiered log is in remote storage."""
        return max(self.log_start_offset, self.segments.first.base_offset)

    def locate(self, offset: int) -> LogOffsetMetadata:
        """Segment and position of the batch that holds `offset`; may read a few kilobytes. Raises KafkaStorage."""
        if offset == self.log_end_offset:
            return self.end
        try:
            found = self.segments.locate(offset)
        except OSError as error:
            raise self.failure(error) from error
        return self.end if found is None else LogOffsetMetadata(offset, found[0].base_offset, found[1])

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """(epoch found, its end offset), (-1, -1) if unknown (UnifiedLog.endOffsetForEpoch)."""
        return self.leader_epochs.end_offset_for(leader_epoch, self.log_end_offset)

    @property
    def first_unstable_offset(self) -> int | None:
        """The start of the earliest open transaction, or the batch that holds the log's start if that is later.

        The rule is UnifiedLog.maybeIncrementFirstUnstableOffset's. May read, as `locate` does. Raises KafkaStorage.
        """
        first = self.producers.first_unstable_offset
        if first is None or first >= self.log_start_offset:
            return first
        try:
            return self.segments.batch_start(self.log_start_offset)
        except OSError as error:
            raise self.failure(error) from error

    # -- reading

    def plan_read(
        self, start_offset: int, max_bytes: int, upper: LogOffsetMetadata, min_one_message: bool, at_once: int = 0
    ) -> ReadPlan:
        """The plan of a read from `start_offset` of at most `max_bytes`, not past `upper` (Kafka's LocalLog.read).

        Raises OffsetOutOfRange outside [log start, log end], KafkaStorage when the log is offline.
        """
        if self._offline is not None:
            raise self.storage_error()
        if not self.log_start_offset <= start_offset <= self.log_end_offset:
            raise out_of_range(self.name, start_offset, self.log_start_offset, self.log_end_offset)
        segment = None
        if start_offset < upper.offset:
            segment = self.segments.floor(start_offset)
            if segment is None:
                return self.tier.plan_read(start_offset, max_bytes, upper, min_one_message)
        return ReadPlan(
            self.segments,
            self.services.workers,
            self.failure,
            segment,
            start_offset,
            max_bytes=max_bytes,
            upper=upper,
            min_one_message=min_one_message,
            at_once=at_once,
        )

    # -- flushing

    @property
    def flushed(self) -> LogOffsetMetadata:
        """How far the log is known to be on the device; its offset is the recovery point."""
        return self.flusher.flushed

    def flush(self) -> None:
        """Ask for a flush of everything appended so far; `flusher.on_flush` is called when it is done."""
        self.flusher.request()

    # -- going offline

    @property
    def is_offline(self) -> bool:
        return self._offline is not None

    def failure(self, error: OSError) -> KafkaError:
        """Return what to raise if an error left the log as it was: without room or a descriptor it stays online."""
        if is_transient(error):
            self.services.note_shortage(self.folder, error)
            return KafkaStorage(f"There is no room for the log of {self.name} in {self.folder}: {error}")
        return self.fail(error)

    def fail(self, error: Exception) -> KafkaError:
        """Take the log offline after a disk error; return what to raise."""
        if self._offline is None:
            self._offline = KafkaStorage(f"The log of {self.name} in {self.folder} is offline: {error}")
            self.flusher.stop()
            logger.error("log offline", partition=self.name, folder=self.folder, error=str(error))
            if self.on_offline is not None:
                self.on_offline(self, error)
            self.host.failed(error)
        return self.storage_error()

    def check_online(self) -> None:
        """Raises KafkaStorage if the log is offline."""
        if self._offline is not None:
            raise self.storage_error()

    def storage_error(self) -> KafkaError:
        """Return the exception that every call on an offline log raises."""
        assert self._offline is not None, "the log is online"
        return type(self._offline)(self._offline.message)

    # -- the log's start, closing

    def increment_log_start_offset(self, offset: int) -> bool:
        """Raise the log's start; False if it is there already. The caller checkpoints it before answering.

        Raises OffsetOutOfRange past the log's end (the caller checks the high watermark), KafkaStorage.
        """
        self.check_online()
        if offset > self.log_end_offset:
            raise OffsetOutOfRange(f"Cannot increment the log start offset of {self.name} to {offset}, past its end.")
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        if self.on_start is not None:
            self.on_start()
        if self.leader_epochs.truncate_from_start(offset):
            workers = self.services.workers.lane(folder_lane("files", self.folder))
            # Nobody waits for the file: loading computes the same from what was saved before.
            workers.submit(self.leader_epochs.save, lambda _: None, self._epochs_not_saved)
        return True

    def _epochs_not_saved(self, error: Exception) -> None:
        if not is_transient(error):
            self.fail(error)

    def close(self) -> None:
        """Put everything on the device, for a clean shutdown; blocking. Raises KafkaStorage."""
        try:
            self.segments.active.seal_if_touched()
            self.producers.take_snapshot(self.log_end_offset)
        except OSError as error:
            raise self.fail(error) from error
        self.flusher.flush_now()

    def retire(self) -> None:
        """Make every later call fail, and ignore disk errors: the partition is deleted."""
        self._offline = NotLeaderOrFollower(f"The log of {self.name} was deleted.")
        self.on_offline = self.on_start = None
        self.flusher.retire(self._offline)
        self.removal.stop()
        self.leader_epochs.retire()
        for segment in self.segments:
            segment.file.retire()

    def relocate(self, folder: str) -> None:
        """Go on with the same files, now in another folder."""
        self.folder = folder
        for part in (self.flusher, self.removal, self.producers.snapshots, self.leader_epochs, *self.segments):
            part.relocate(folder)

    def release_files(self) -> None:
        """Close descriptors, at once or when their readers are done; later readers open them again."""
        for segment in self.segments:
            segment.file.close()
