"""A follower's changes of its log: appending what the leader has, and dropping what the leader does not have.

It stores the leader's batches byte for byte (Kafka's `UnifiedLog.appendAsFollower`): with their offsets, leader epochs
and times. Only what tells damaged data from good is checked again: sizes, magic, CRC, and that offsets ascend from this
log's end. There may be gaps, where the leader has compacted.

Truncation makes a log shorter at its end (`UnifiedLog.truncateTo`, `truncateFullyAndStartAt`). `lower` lowers the
recovery point, also on the device: else the next load trusts unsynced records that are appended below it. `cut` makes
the log shorter in memory, and renames the files of whole segments, as a removal does. `follow` lets the files follow,
synced, so that what was cut off does not come back, and reads the producers anew; `finish` takes these over. `lower`
and `follow` block, and may run in any thread; the others belong on the loop. While it is held, the log takes no
appends, starts no flush, and is not moved.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from protocol.errors import CorruptMessage, InvalidRecord
from protocol.records.batch import HEADER_SIZE, MAGIC, BatchHeader, check_crc, read_header
from storage.append_types import AppendOrigin
from storage.log.recovery import rebuild_producers
from storage.log.unified_log import UnifiedLog
from storage.log.validator import first_batch_size
from storage.producers.producer_state import Duplicate, ProducerStateManager
from storage.segments.index import MAX_RELATIVE_OFFSET
from storage.segments.segment import LogSegment
from storage.segments.segment_files import DELETED_SUFFIX

LAST_OFFSET = 2**63 - 2
"""The last offset that a record may have: the end of the log after it is a number of 64 bits, too."""


def append(log: UnifiedLog, records: memoryview, *, leader_epoch: int, now_ms: int, most_batches: int) -> int:
    """Append the whole batches that `records` begins with, `most_batches` at most; return their size in bytes.

    Batches of a later epoch than `leader_epoch` are left out too: they are of another leader than the one followed.
    Raises CorruptMessage and InvalidRecord; the batches before a bad one stay appended. Raises KafkaStorage, and
    NotLeaderOrFollower while the log changes its folder.
    """
    log.check_appendable()
    size = 0
    try:
        for count, (batch, header) in enumerate(_batches(records, log.name)):
            if header.leader_epoch > leader_epoch or count == most_batches:
                break
            if header.base_offset < log.log_end_offset:
                raise InvalidRecord(
                    f"A batch for {log.name} begins at offset {header.base_offset}, but the log ends at "
                    f"{log.log_end_offset}."
                )
            if header.last_offset > LAST_OFFSET:
                raise InvalidRecord(
                    f"A batch for {log.name} ends at offset {header.last_offset}, which no log can reach."
                )
            _append(log, batch, header, now_ms)
            size += len(batch)
    finally:  # the batches before a bad one, too: nothing is fetched until they are flushed
        if log.log_end_offset - log.flusher.flushed.offset >= log.config.flush_messages:
            log.flusher.request()
    return size


def begins_anew(log: UnifiedLog, records: memoryview, leaders_start: int) -> int | None:
    """The base offset of the first batch if this log is to drop all that it has and begin there; else None.

    That is so if it is empty and its start lies within that batch, of which the leader has deleted the first records,
    or if all that it has lies before the leader's start: nobody can say whether the leader ever had the same there.
    """
    size = first_batch_size(records)
    if not size or (header := read_header(records)).last_offset < log.log_end_offset:
        return None
    is_empty = log.log_start_offset == log.log_end_offset
    is_within = header.base_offset < log.log_end_offset
    return header.base_offset if (is_within if is_empty else leaders_start >= log.log_end_offset) else None


def _batches(records: memoryview, name: str) -> Iterator[tuple[memoryview, BatchHeader]]:
    position = 0
    while size := first_batch_size(records, position):
        if size < HEADER_SIZE:
            raise CorruptMessage(f"A batch for {name} of {size} bytes is smaller than its header.")
        batch = records[position : position + size]
        header = read_header(batch)
        if header.magic != MAGIC:
            raise CorruptMessage(f"A batch for {name} has magic {header.magic}; only magic {MAGIC} is stored.")
        if header.last_offset_delta < 0 or not check_crc(batch, 0, header):
            raise CorruptMessage(f"The CRC of a batch for {name} at offset {header.base_offset} does not match.")
        yield batch, header
        position += size


def _append(log: UnifiedLog, batch: memoryview, header: BatchHeader, now_ms: int) -> None:
    last_offset, max_timestamp = header.last_offset, header.max_timestamp
    try:
        if header.leader_epoch != log.leader_epochs.latest and header.leader_epoch >= 0:
            log.leader_epochs.begin(header.leader_epoch, header.base_offset)
        segment = log.segments.active
        if segment.should_roll(log.config, len(batch), max_timestamp, last_offset, now_ms):
            is_far = last_offset - log.log_end_offset > MAX_RELATIVE_OFFSET  # after what the leader has compacted
            segment = log.roll(header.base_offset if is_far else log.log_end_offset)
        update = log.producers.check(batch, header, AppendOrigin.REPLICATION) if header.has_producer_id else None
        if isinstance(update, Duplicate):
            raise AssertionError("replication knows no duplicates")
        segment.append(batch, last_offset, max_timestamp, header.base_offset)
    except OSError as error:
        raise log.failed_append(error) from error
    log.log_end_offset = last_offset + 1
    if update is not None:
        completed = log.producers.publish(update, header.base_offset)
        if completed is not None and completed.is_aborted:
            log.note_aborted(segment, completed)


class Truncation:
    """Drops everything from `offset` on; with `log_start_offset` everything at all: the next append gets `offset`.

    A tiered log that is cut below its own segments begins at its start, as an empty replica's does.

    In any case no leader epoch remains that has no records: this node may have led in it and appended nothing, and the
    leader knows nothing of it.

    Attributes:
        offset: the log's end afterwards.
        is_anew: nothing at all remains.
    """

    def __init__(self, log: UnifiedLog, offset: int, log_start_offset: int | None = None) -> None:
        self.is_anew = log_start_offset is not None
        if log_start_offset is None and offset < log.segments.first.base_offset:
            if log.config.remote_storage:  # what comes before is in remote storage, with its epochs and producers
                offset = min(offset, log.log_start_offset)
            log_start_offset = offset
        self._log = log
        self.offset = offset
        self._new_start = log_start_offset
        self._doomed: list[LogSegment] = []
        self._is_cut = False
        self._producers: ProducerStateManager | None = None

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to drop besides leader epochs."""
        return self._new_start is not None or self.offset < self._log.log_end_offset

    @contextlib.contextmanager
    def holding(self) -> Iterator[None]:
        """The context in which the steps run: enter it before `lower`, and leave it after `finish`."""
        log = self._log
        log.held_back = True
        log.flusher.hold()
        log.removal.unsynced += 1  # a move waits for this
        try:
            yield
        finally:
            log.removal.unsynced -= 1
            log.held_back = False
            log.flusher.release()

    def begin(self) -> None:
        """Begin, on the loop, before `lower`: a flush that is under way does not count then. Raises KafkaStorage."""
        log = self._log
        log.check_online()
        if self.is_needed:
            lowest = self.offset if self._new_start is None else log.segments.first.base_offset
            log.flusher.lower(lowest)
            if log.cleaned_to is not None:
                log.cleaned_to = min(log.cleaned_to, lowest)

    def lower(self) -> None:
        """Lower the recovery point on the device; blocks. Raises OSError."""
        if self.is_needed:
            self._log.host.checkpoint()

    def cut(self) -> None:
        """Make the log shorter in memory, on the loop. Raises OSError."""
        log = self._log
        self._is_cut = self.is_needed
        if not self._is_cut:
            log.leader_epochs.forget_from(log.log_end_offset)
        elif self._new_start is not None:
            self._rename(list(log.segments))
            log.segments.replace_all(log.new_segment(self.offset, sealed=None))
            log.leader_epochs.forget_from(0)
            self._end_at(self._new_start)
        else:
            self._rename([segment for segment in log.segments if segment.base_offset > self.offset])
            for segment in self._doomed:
                log.segments.remove(segment)
            log.segments.active.truncate_to(self.offset, log.services.clock.wall_ms())
            log.leader_epochs.forget_from(self.offset)
            self._end_at(min(self.offset, log.log_start_offset))

    def _rename(self, doomed: list[LogSegment]) -> None:
        """Rename the files of whole segments, the last first: no gap can remain. Readers keep their descriptors."""
        for segment in reversed(doomed):
            segment.change_suffix(DELETED_SUFFIX)
        self._doomed = doomed

    def _end_at(self, log_start_offset: int) -> None:
        log = self._log
        log.log_end_offset = self.offset
        log.log_start_offset = log_start_offset
        log.flusher.note_truncated()
        log.segments.note_truncated()

    def follow(self) -> None:
        """Make the files shorter, and read the producers anew; blocks. Raises OSError."""
        log, fs = self._log, self._log.services.fs
        if not self._is_cut:
            log.leader_epochs.save()
            return
        fs.fsync_dir(log.folder)
        active = log.segments.active
        file = active.file.open()
        active.cut_back()
        file.fdatasync()
        log.leader_epochs.save()
        with log.removal.lock:
            if log.removal.is_stopped:
                return  # the log is deleted, and its folder may have another one's files
            for segment in self._doomed:
                for path in segment.existing_files():
                    fs.unlink(path)
        producers = ProducerStateManager(fs, log.folder, log.name, log.producers.expiration_ms)
        now_ms = log.services.clock.wall_ms()
        rebuild_producers(producers, list(log.segments), log.log_start_offset, self.offset, now_ms)
        self._producers = producers

    def finish(self) -> None:
        """Take over the producers, on the loop."""
        for segment in self._doomed:
            segment.file.close()
        if self._producers is not None:
            self._log.producers.take(self._producers)
