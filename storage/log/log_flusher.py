"""Flushing one log: `fdatasync` in a worker thread, one at a time, each covering every append before it started.

How it works: `request` notes that the log is to be flushed to its present end. If no flush is running, one starts: it
takes the list of what changed since the last one (the active segment's file, new names, leader epochs), and syncs that
in a worker thread. If one is running, another follows it at once, for everything that came meanwhile. So any number of
waiting appends costs two syncs at most. When a flush is over, `flushed` advances on the loop, and `on_flush` tells the
partition. After a failed flush the log is offline.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import structlog

from protocol.errors import KafkaError
from storage.files import File, FileSystem, is_out_of_descriptors, is_transient, sync_file
from storage.log.leader_epochs import LeaderEpochs
from storage.log.log_segments import LogOffsetMetadata, LogSegments
from storage.log.log_services import DESCRIPTORS_RETRY_MS, LogServices
from storage.producers.producer_state import ProducerStateManager
from storage.segments.segment import LogSegment
from storage.segments.segment_files import SegmentFile
from storage.workers import folder_lane

logger = structlog.get_logger(__name__)


@dataclass(slots=True)
class FlushWork:
    """The work of one flush: open files, files by name, and the folder if names in it have changed.

    `epochs` are saved too, so that the recovery point never passes an epoch that no file has. `target` is the log's end
    when the flush was prepared, `generation` the log's count of truncations at that time; `release` lets go of the open
    files.
    """

    fs: FileSystem
    target: LogOffsetMetadata
    generation: int
    files: list[File]
    names: list[str]
    folder: str | None
    release: Callable[[], None]
    epochs: LeaderEpochs | None
    _turn: threading.Lock = field(default_factory=threading.Lock)
    _done: bool = False
    _error: OSError | None = None

    def run(self) -> None:
        """Sync everything, once; blocking, any thread. A second caller waits for the same outcome. Raises OSError."""
        with self._turn:
            if self._error is not None:
                raise self._error
            if self._done:
                return
            try:
                self._sync()
            except OSError as error:
                self._error = error
                raise
            self._done = True

    def _sync(self) -> None:
        for file in self.files:
            file.fdatasync()
        for name in self.names:
            with contextlib.suppress(FileNotFoundError):  # its segment was removed meanwhile
                sync_file(self.fs, name)
        if self.folder is not None:
            self.fs.fsync_dir(self.folder)
        if self.epochs is not None:
            _save_or_wait(self.epochs)


def _save_or_wait(epochs: LeaderEpochs) -> None:
    """Save the epochs, or leave that to the next flush if room or a descriptor is missing: records have them too."""
    try:
        epochs.save()
    except OSError as error:
        if not is_transient(error):
            raise
        logger.warning("leader epochs not saved, retried at the next flush", error=str(error))


class LogFlusher:
    """Knows how far a log is on the device, and what is not yet.

    A request that comes during a flush is served by the next one, together with all others. A failed flush is never
    retried: the kernel may have dropped the dirty pages, so that a second one would succeed falsely. A file that could
    not be opened because too many are open has not been flushed at all: that is tried again.

    Attributes:
        flushed: the log's end as of the last flush; its offset is the recovery point.
        on_flush: called with `flushed` when it advances.
    """

    __slots__ = (
        "_end",
        "_epochs",
        "_failed",
        "_folder",
        "_generation",
        "_held",
        "_names",
        "_names_changed",
        "_producers",
        "_requested",
        "_running",
        "_sealed",
        "_segments",
        "_services",
        "_stopped",
        "_then",
        "_waits_for_descriptors",
        "flushed",
        "last_flush_ms",
        "on_flush",
    )

    def __init__(
        self,
        services: LogServices,
        folder: str,
        *,
        segments: LogSegments,
        producers: ProducerStateManager,
        epochs: LeaderEpochs,
        end: Callable[[], LogOffsetMetadata],
        failed: Callable[[Exception], KafkaError],
    ) -> None:
        self._services = services
        self._folder = folder
        self._segments = segments
        self._producers = producers
        self._epochs = epochs
        self._end = end
        self._failed = failed
        self.flushed = end()
        self.last_flush_ms = services.clock.monotonic_ms()
        self.on_flush: Callable[[LogOffsetMetadata], None] | None = None
        self._sealed: list[LogSegment] = []
        self._names: list[str] = []  # of files that could not be opened
        self._names_changed = False
        self._generation = 0
        self._held = False
        self._running: FlushWork | None = None
        self._requested = False
        self._waits_for_descriptors = False
        self._stopped = False
        self._then: Callable[[], None] | None = None

    def note_new_segment(self, sealed: LogSegment | None) -> None:
        """Note that files were created; `sealed` is the segment before them."""
        self._names_changed = True
        if sealed is not None:
            self._sealed.append(sealed)

    def lower(self, offset: int) -> None:
        """Prepare for a truncation to an offset: a flush that began before it does not count."""
        self._generation += 1
        if self.flushed.offset > offset:
            self.flushed = LogOffsetMetadata(offset)

    def note_truncated(self) -> None:
        """Note the log's new end after a truncation. What was on the device before still is."""
        self._sealed = [segment for segment in self._sealed if segment.base_offset in self._segments]
        end = self._end()
        if self.flushed.offset >= end.offset or not self._segments.size:
            self.flushed = end

    def note_removed(self, segments: Sequence[LogSegment]) -> None:
        """Drop removed segments: there is nothing left to flush, and their removal syncs the folder."""
        self._sealed = [segment for segment in self._sealed if segment not in segments]

    def relocate(self, folder: str) -> None:
        """Note that the log lies in another folder now; no flush is under way."""
        self._folder = folder
        self._names = [f"{folder}/{path.rpartition('/')[2]}" for path in self._names]

    def note_synced(self, end: LogOffsetMetadata) -> None:
        """Note that the log is on the device up to `end`; no flush is under way."""
        if end.offset > self.flushed.offset:
            self.flushed = end
            if self.on_flush is not None:
                self.on_flush(end)

    def hold(self) -> None:
        """Start no flush until `release`; none may be under way."""
        self._held = True

    def release(self) -> None:
        """Resume flushing, and start what was asked for meanwhile."""
        self._held = False
        self._serve_requests()

    def _serve_requests(self) -> None:
        if self._requested:
            self._requested = False
            self.request()

    def when_idle(self, action: Callable[[], None]) -> None:
        """Call `action` once, on the loop, when no flush is under way: now, or before the next one starts."""
        if self._running is None:
            action()
        else:
            self._then = action

    def _call_waiting(self) -> None:
        action, self._then = self._then, None
        if action is not None:
            action()

    def stop(self) -> None:
        """Start no flush from now on."""
        self._stopped = True

    def retire(self, reason: KafkaError) -> None:
        """Stop, and let go of the log, so that reference counts alone free both: nothing waits for it any more."""
        self.stop()
        end = self._end()
        self._end, self._failed, self.on_flush = lambda: end, lambda _error: reason, None

    def request(self) -> None:
        """Start a flush of everything appended so far, or have the next one cover it."""
        if self._running is not None or self._held or self._waits_for_descriptors:
            self._requested = True
            return
        try:
            work = self._prepare(closing=False)
        except OSError as error:
            self._retry_or_fail(error)
            return
        if work is None:
            return
        self._running = work
        workers = self._services.workers.lane(folder_lane("flush", self._folder))
        workers.submit(work.run, lambda _: self._finish(work), lambda error: self._fail(work, error))

    def flush_now(self) -> None:
        """Flush on this thread, including what only a clean shutdown needs. Raises KafkaStorage."""
        running = self._running
        try:
            work = self._prepare(closing=True)
        except OSError as error:
            raise self._failed(error) from error
        if work is None:
            return
        try:
            if running is not None:
                running.run()  # it may not have run yet, and is not in `work`
            work.run()
        except OSError as error:
            raise self._failed(error) from error
        finally:
            work.release()
        self._advance(work)

    def _prepare(self, *, closing: bool) -> FlushWork | None:
        """Return a flush's work, which from now on counts as flushed. Raises OSError, and then nothing has changed."""
        end = self._end()
        unsaved = self._epochs.is_unsaved(end.offset)
        left = self._sealed or self._names or self._names_changed or unsaved
        nothing = self.flushed.offset >= end.offset and not left
        if self._stopped or (nothing and not closing):
            return None
        active = self._segments.active
        handles = [segment.file for segment in self._sealed]
        names = self._names + [path for segment in self._sealed for path in segment.index_paths()]
        if self.flushed.offset < end.offset:
            handles.append(active.file)
        if closing and active.has_changed_indexes:
            names += active.index_paths()
        files = _acquire(handles)
        names += self._producers.snapshots.take_unsynced()
        folder = self._folder if self._names_changed or (closing and (names or active.is_touched)) else None
        self._sealed = []
        self._names = []
        self._names_changed = False

        def release() -> None:
            for handle in handles:
                handle.release()

        epochs = self._epochs if unsaved else None
        return FlushWork(self._services.fs, end, self._generation, files, names, folder, release, epochs)

    def _advance(self, work: FlushWork) -> None:
        self.last_flush_ms = self._services.clock.monotonic_ms()
        if work.generation != self._generation or work.target.offset <= self.flushed.offset:
            return
        self.flushed = work.target
        if self.on_flush is not None:
            self.on_flush(work.target)

    def _finish(self, work: FlushWork) -> None:
        self._running = None
        work.release()
        self._advance(work)
        self._call_waiting()
        self._serve_requests()

    def _fail(self, work: FlushWork, error: Exception) -> None:
        self._running = None
        work.release()
        if is_out_of_descriptors(error):
            self._names += work.names
            self._names_changed |= work.folder is not None
        self._retry_or_fail(error)
        self._call_waiting()

    def _retry_or_fail(self, error: Exception) -> None:
        """Flush again later if a file could not be opened; any other error takes the log offline."""
        if not is_out_of_descriptors(error):
            self._failed(error)
        elif not self._waits_for_descriptors:
            self._services.note_shortage(self._folder, error)
            self._waits_for_descriptors = self._requested = True
            self._services.clock.machine.call_later(DESCRIPTORS_RETRY_MS, self._retry)

    def _retry(self) -> None:
        self._waits_for_descriptors = False
        self._serve_requests()


def _acquire(handles: Sequence[SegmentFile]) -> list[File]:
    """The open files. On OSError none stays acquired."""
    files: list[File] = []
    with contextlib.ExitStack() as undo:
        for handle in handles:
            files.append(handle.acquire())
            undo.callback(handle.release)
        undo.pop_all()
    return files
