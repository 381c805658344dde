"""Removing segments in two steps: files become `.deleted` now and go later (Kafka's LocalLog.deleteSegmentFiles).

All of it happens in worker threads; readers that still hold a segment find its files until they go.

How it works: segments are taken out of the log's list on the loop, so no new read finds them. A worker thread renames
their files, which must not fail half-way: it is tried again while there is no room, and the next removal waits for it,
since a crash must not find a gap between the remaining segments. After `file.delete.delay.ms` the files are unlinked.
What a stop or a crash leaves behind with the suffix `.deleted` is removed at the next start.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

import structlog

from protocol.errors import KafkaError
from storage.files import is_transient
from storage.log.log_flusher import LogFlusher
from storage.log.log_services import DESCRIPTORS_RETRY_MS, LogServices
from storage.segments.segment import LogSegment
from storage.segments.segment_files import DELETED_SUFFIX
from storage.workers import Workers, folder_lane

logger = structlog.get_logger(__name__)


class SegmentRemoval:
    """The files of one log that are being removed.

    Removals wait for one another, even if one is held up: a crash must find no gap between the remaining segments.

    Attributes:
        lock: held while files are renamed, so that a folder is not renamed and recreated meanwhile.
            Never held during a sync: the loop takes it when the log is deleted.
        unsynced: removals that a power failure may still undo.
    """

    __slots__ = ("_failed", "_flusher", "_folder", "_renames", "_services", "_stopped", "lock", "unsynced")

    def __init__(
        self, services: LogServices, folder: str, flusher: LogFlusher, failed: Callable[[Exception], KafkaError]
    ) -> None:
        self._services = services
        self._folder = folder
        self._flusher = flusher
        self._failed: Callable[[Exception], KafkaError] | None = failed
        self._stopped = False
        self._renames: deque[tuple[Sequence[LogSegment], Sequence[str], int]] = deque()
        """The segments, snapshots and delay of each removal whose files are not renamed yet; the first was started."""
        self.lock = threading.Lock()
        self.unsynced = 0

    def stop(self) -> None:
        """Touch no file of the folder from now on: the log is deleted, or the broker is stopping."""
        with self.lock:
            self._stopped = True
        self._failed = None  # so that nothing leads back to the log: reference counts alone free both

    def relocate(self, folder: str) -> None:
        """Note that the log lies in another folder now; no removal is under way."""
        self._folder = folder

    @property
    def is_stopped(self) -> bool:
        return self._stopped

    def remove(self, segments: Sequence[LogSegment], snapshots: Sequence[str], delay_ms: int) -> None:
        """Remove segments that lookups no longer find, and the producer snapshots at these paths.

        The files are renamed soon, after those of earlier removals, and deleted `delay_ms` later. A disk error takes
        the log offline.
        """
        self.unsynced += 1
        self._renames.append((segments, snapshots, delay_ms))
        if len(self._renames) == 1:
            self._start()

    def _start(self) -> None:
        """Have the files of the first removal renamed."""
        if self._stopped:  # and so perhaps are the workers
            self._renamed([])
        else:
            segments, snapshots, _ = self._renames[0]
            self._workers().submit(partial(self._rename, segments, snapshots), self._renamed, self._not_renamed)

    def _renamed(self, paths: list[str]) -> None:
        segments, _, delay_ms = self._renames.popleft()
        self.unsynced -= 1
        # Only now: an unsynced segment left behind could become a gap below what was flushed, if the power fails.
        self._flusher.note_removed(segments)
        if self._renames:
            self._start()
        self.unlink_later(segments, paths, delay_ms)

    def _not_renamed(self, error: Exception) -> None:
        if is_transient(error):
            self._services.note_shortage(self._folder, error)
            self._services.clock.machine.call_later(DESCRIPTORS_RETRY_MS, self._start)
        else:
            self._fail(error)

    def _workers(self) -> Workers:
        return self._services.workers.lane(folder_lane("files", self._folder))

    def _rename(self, segments: Sequence[LogSegment], snapshots: Sequence[str]) -> list[str]:
        with self.lock:
            if self._stopped:
                return []
            paths = self.mark_deleted(segments, snapshots)
        self._services.fs.fsync_dir(self._folder)
        return paths

    def mark_deleted(self, segments: Sequence[LogSegment], snapshots: Sequence[str]) -> list[str]:
        """Rename the files that are not renamed yet, oldest segment first; the caller has the lock.

        Returns their new paths; raises OSError.
        """
        fs = self._services.fs
        paths = []
        for segment in segments:
            segment.change_suffix(DELETED_SUFFIX)
            paths += segment.existing_files()
        for snapshot in snapshots:
            marked = snapshot + DELETED_SUFFIX
            if fs.exists(snapshot):
                fs.rename(snapshot, marked)
            if fs.exists(marked):
                paths.append(marked)
        return paths

    def unlink_later(self, segments: Sequence[LogSegment], paths: list[str], delay_ms: int) -> None:
        """Remove files that are marked as deleted, `delay_ms` from now (`file.delete.delay.ms`)."""

        def unlinked(_: None) -> None:
            for segment in segments:
                segment.file.close()

        def start() -> None:
            if self._stopped:
                unlinked(None)
            else:
                self._workers().submit(partial(self._unlink, paths), unlinked, self._fail)

        self._services.clock.call_later(delay_ms, start)

    def _unlink(self, paths: list[str]) -> None:
        for path in paths:
            if not self._stopped:
                with contextlib.suppress(FileNotFoundError):
                    self._services.fs.unlink(path)

    def _fail(self, error: Exception) -> None:
        if self._failed is not None:
            self._failed(error)
