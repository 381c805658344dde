"""Making a log shorter at its end (Kafka's UnifiedLog.truncateTo, truncateFullyAndStartAt).

Truncation is for followers, which drop what their new leader does not have.

How it works. `lower` lowers the recovery point, also on the device: else the next load trusts unsynced records that
are appended below it. `cut` makes the log shorter in memory, and renames the files of whole segments, as a removal
does. `follow` lets the files follow, synced, so that what was cut off does not come back, and reads the producers
anew; `finish` takes these over. `lower` and `follow` block, and may run in any thread; the others belong on the loop.
While it is held, the log takes no appends, starts no flush, and is not moved.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from storage.log.recovery import rebuild_producers
from storage.log.unified_log import UnifiedLog
from storage.producers.producer_state import ProducerStateManager
from storage.segments.segment import LogSegment
from storage.segments.segment_files import DELETED_SUFFIX


class Truncation:
    """Drops everything from `offset` on; with `log_start_offset` everything at all: the next append gets `offset`.

    In any case no leader epoch remains that has no records: this node may have led in it and appended nothing, and the
    leader knows nothing of it.

    Attributes:
        offset: the log's end afterwards.
        is_anew: nothing at all remains.
    """

    def __init__(self, log: UnifiedLog, offset: int, log_start_offset: int | None = None) -> None:
        self.is_anew = log_start_offset is not None
        if log_start_offset is None and offset < log.segments.first.base_offset:
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
