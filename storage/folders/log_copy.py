"""The copy of a log that grows in another folder while the log goes on being written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from protocol.topic_partition import EpochEntry
from storage.checkpoint_file import checkpoint_bytes
from storage.files import read_file, sync_file, write_fully
from storage.log.leader_epochs import FILE_NAME as EPOCHS_FILE
from storage.log.leader_epochs import lines_of
from storage.log.unified_log import UnifiedLog
from storage.producers.snapshot_files import file_name as snapshot_name
from storage.segments.segment import LogSegment
from storage.segments.segment_files import LOG_SUFFIX, SEGMENT_SUFFIXES, file_name

CHUNK = 4 << 20
SYNCED_TOGETHER = 16 << 20
"""Bytes copied between syncs. With more dirty pages the kernel stalls every writer, the loop included."""

Step = Callable[[], None]


class SourceError(OSError):
    """The files being copied could not be read; any other error of a copy comes from the folder that it grows in."""


class LogCopy:
    """Segments, indexes, producer snapshots and leader epochs of `log`, in `folder`.

    No file of a served log shrinks or changes, except the leader epochs: what was copied stays valid.

    Attributes:
        folder: the folder of the copy.
        size: bytes of the copy's segments.
    """

    def __init__(self, log: UnifiedLog, folder: str) -> None:
        self.folder = folder
        self.size = 0
        self._log = log
        self._fs = log.services.fs
        self._copied: dict[str, int] = {}  # bytes by file name, until the segment is complete
        self._complete: set[int] = set()  # segments that were sealed when they were copied
        self._snapshots: set[int] = set()
        self._epochs: tuple[EpochEntry, ...] = ()
        self._unsynced: dict[str, None] = {}

    def missing(self) -> tuple[int, int]:
        """How many bytes and segments the copy lacks."""
        segments = [segment for segment in self._log.segments if segment.base_offset not in self._complete]
        copied = sum(self._copied.get(file_name(segment.base_offset, LOG_SUFFIX), 0) for segment in segments)
        return sum(segment.size for segment in segments) - copied, len(segments)

    def steps(self) -> Iterator[Step]:
        """Everything to do, in order, so that the copy has all that the log had when the first step was asked for.

        Each step may run in any thread, and raises OSError (SourceError among them).
        """
        log = self._log
        active = log.segments.active
        segments = [(segment, segment.size) for segment in log.segments if segment.base_offset not in self._complete]
        snapshots = [offset for offset in log.producers.snapshots.offsets if offset not in self._snapshots]
        epochs = log.leader_epochs.entries
        for segment, size in segments:
            yield from self._segment_steps(segment, size, is_active=segment is active)
        for offset in snapshots:
            yield partial(self._copy_whole, snapshot_name(offset))
            self._snapshots.add(offset)
        if epochs != self._epochs:
            # From memory: the log's own file may not have the latest one yet.
            yield partial(self._write, EPOCHS_FILE, checkpoint_bytes(lines_of(epochs)), 0)
            self._epochs = epochs

    def _segment_steps(self, segment: LogSegment, size: int, *, is_active: bool) -> Iterator[Step]:
        name = file_name(segment.base_offset, LOG_SUFFIX)
        copied = self._copied.get(name, 0)
        while copied < size:
            end = min(copied + CHUNK, size)
            yield partial(self._grow, name, end)
            self.size += end - copied
            copied = end
            if not copied % SYNCED_TOGETHER:
                yield partial(sync_file, self._fs, f"{self.folder}/{name}")
        yield partial(self._finish_segment, segment.base_offset)
        if not is_active:
            self._complete.add(segment.base_offset)
            for suffix in SEGMENT_SUFFIXES:
                self._copied.pop(file_name(segment.base_offset, suffix), None)

    def _finish_segment(self, base_offset: int) -> None:
        """Copy the indexes, and the modification time, by which retention goes where records have no timestamps."""
        for suffix in SEGMENT_SUFFIXES:
            name = file_name(base_offset, suffix)
            with _reading():
                is_there = suffix != LOG_SUFFIX and self._fs.exists(f"{self._log.folder}/{name}")
            if is_there:
                self._grow(name)
        name = file_name(base_offset, LOG_SUFFIX)
        if name not in self._copied:
            self._grow(name, 0)
        with _reading():
            modified_ms = self._fs.modified_ms(f"{self._log.folder}/{name}")
        self._fs.set_modified_ms(f"{self.folder}/{name}", modified_ms)

    def _grow(self, name: str, end: int | None = None) -> None:
        """Copy the missing part of a file, up to a position or to its end."""
        start = self._copied.get(name)
        with _reading():
            source = self._fs.open(f"{self._log.folder}/{name}")
            try:
                size = source.size() if end is None else end
                if start == size:
                    return
                data = source.pread(size - (start or 0), start or 0)
            finally:
                source.close()
        if len(data) != size - (start or 0):
            raise SourceError(f"{self._log.folder}/{name} ends before {size}")
        self._write(name, data, start or 0)
        self._copied[name] = size

    def _copy_whole(self, name: str) -> None:
        """Copy a small file whole, replacing the copy."""
        with _reading():
            data = read_file(self._fs, f"{self._log.folder}/{name}")
        self._write(name, data, 0)

    def _write(self, name: str, data: bytes, start: int) -> None:
        self._unsynced[name] = None
        copy = self._fs.open(f"{self.folder}/{name}", create=True)
        try:
            if not start:
                copy.truncate(0)
            write_fully(copy, data, start)
        finally:
            copy.close()

    def sync_steps(self) -> Iterator[Step]:
        """The steps that sync what had been copied before the first of them."""
        names, self._unsynced = self._unsynced, {}
        for name in names:
            yield partial(sync_file, self._fs, f"{self.folder}/{name}")
        yield lambda: self._fs.fsync_dir(self.folder)


@contextmanager
def _reading() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SourceError(error.errno, error.strerror, error.filename) from error
