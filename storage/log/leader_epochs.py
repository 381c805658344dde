"""Which leader epoch starts at which offset; `leader-epoch-checkpoint` (Kafka's LeaderEpochFileCache, KIP-101).

How it works: the entries are (epoch, start offset), and both only ascend. A new entry removes those that contradict it:
with the same or a larger epoch or offset. The end of an epoch is the start of the next one, or the log's end. Who
compares its own end of an epoch with the leader's truncates to the smaller one. An epoch that begins is noted in
memory; the flush that has its first records writes the file.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterable
from operator import attrgetter

import structlog

from protocol.topic_partition import EpochEntry
from storage.checkpoint_file import CorruptCheckpointError, read_checkpoint, write_checkpoint
from storage.files import FileSystem

logger = structlog.get_logger(__name__)

FILE_NAME = "leader-epoch-checkpoint"
UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


def lines_of(entries: Iterable[EpochEntry]) -> list[str]:
    """The checkpoint's lines."""
    return [f"{entry.epoch} {entry.start_offset}" for entry in entries]


def entries_of(lines: Iterable[str]) -> tuple[EpochEntry, ...]:
    """The entries of a checkpoint's lines. Raises ValueError, TypeError."""
    return tuple(EpochEntry(*map(int, line.split())) for line in lines)


class LeaderEpochs:
    """The epochs of one partition, ascending in epoch and start offset.

    Every change except `truncate_from_start`, `forget_from`, `recall` and `begin` is on disk before it returns.

    Attributes:
        latest: the latest epoch, -1 if there is none.
        writing: held while the file is being written.
    """

    def __init__(self, fs: FileSystem, folder: str) -> None:
        """Read the file, if there is one. Raises OSError and CorruptCheckpointError."""
        self._fs = fs
        self._path = f"{folder}/{FILE_NAME}"
        self._take([])
        self._unsaved_from: int | None = None  # where the first epoch begins that the file may lack
        self._retired = False
        self.writing = threading.Lock()
        lines = read_checkpoint(fs, self._path) or ()
        try:
            for entry in entries_of(lines):
                self._put(entry)
        except (ValueError, TypeError) as error:
            raise CorruptCheckpointError(f"{self._path}: {error}") from error

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        """All entries, oldest first."""
        return tuple(self._entries)

    def assign(self, epoch: int, start_offset: int) -> None:
        """Note where `epoch` starts, and remove entries that contradict this. The latest epoch cannot start later.

        Raises ValueError for negative numbers, OSError.
        """
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"leader epoch {epoch} cannot start at offset {start_offset}")
        before = list(self._entries)
        if self._put(EpochEntry(epoch, start_offset)):
            try:
                self._write()
            except OSError:
                self._take(before)
                raise

    def _take(self, entries: list[EpochEntry]) -> None:
        self._entries = entries
        self.latest = entries[-1].epoch if entries else UNDEFINED_EPOCH

    def begin(self, epoch: int, start_offset: int) -> None:
        """Note that `epoch` starts at the log's end. It must be saved before any of its records is on the device."""
        if self._put(EpochEntry(epoch, start_offset)):
            self._note_unsaved(start_offset)

    def _note_unsaved(self, start_offset: int) -> None:
        known = self._unsaved_from
        self._unsaved_from = start_offset if known is None else min(known, start_offset)

    def is_unsaved(self, end_offset: int) -> bool:
        """Whether the file lacks an epoch that has records in the log, whose end is given."""
        return self._unsaved_from is not None and self._unsaved_from < end_offset

    def _put(self, new: EpochEntry) -> bool:
        latest = self._entries[-1] if self._entries else None
        if latest is not None and latest.epoch == new.epoch and latest.start_offset <= new.start_offset:
            return False
        kept = self._entries
        while kept and (kept[-1].epoch >= new.epoch or kept[-1].start_offset >= new.start_offset):
            removed = kept.pop()
            if removed.start_offset != new.start_offset:
                logger.warning("conflicting leader epoch removed", path=self._path, removed=removed, new=new)
        kept.append(new)
        self.latest = new.epoch
        return True

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(epoch found, its end offset) for OffsetForLeaderEpoch; (-1, -1) if unknown.

        The epoch found is the largest one not above `epoch`; its end is the start of the next, or the log's end. Below
        the first known epoch it is `epoch` itself, which ends where the first one starts.
        """
        if epoch == UNDEFINED_EPOCH or epoch > self.latest:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self.latest:
            return epoch, log_end_offset
        found = epoch
        for entry in self._entries:
            if entry.epoch > epoch:
                return found, entry.start_offset
            found = entry.epoch
        raise AssertionError("the latest epoch is above the one asked for")

    def epoch_for(self, offset: int) -> int:
        """The epoch that `offset` belongs to, -1 if it lies before the first one."""
        place = bisect_right(self._entries, offset, key=attrgetter("start_offset"))
        return self._entries[place - 1].epoch if place else UNDEFINED_EPOCH

    def truncate_from_end(self, end_offset: int) -> None:
        """Remove the epochs that start at or after `end_offset`, the log's new end. Raises OSError."""
        if self.forget_from(end_offset):
            self._write()

    def forget_from(self, end_offset: int) -> bool:
        """As `truncate_from_end`, only in memory: `save` writes it. Returns whether there is something to write."""
        kept = [entry for entry in self._entries if entry.start_offset < end_offset]
        if end_offset < 0 or len(kept) == len(self._entries):
            return False
        self._take(kept)
        return True

    def truncate_from_start(self, start_offset: int) -> bool:
        """Remove the epochs before `start_offset`, the log's new start; the epoch in force there now starts there.

        Only in memory, as loading does the same: `save` writes it. Returns whether there is something to write.
        """
        removed = [entry for entry in self._entries if entry.start_offset <= start_offset]
        if not removed:
            return False
        first = EpochEntry(removed[-1].epoch, start_offset)
        self._take([first, *self._entries[len(removed) :]])
        return removed != [first]

    def recall(self, earlier: Iterable[EpochEntry]) -> None:
        """Take back entries that lie before the first one. Only in memory."""
        later = self._entries
        before = [entry for entry in earlier if not later or entry.start_offset < later[0].start_offset]
        if before and later and before[-1].epoch == later[0].epoch:
            later = later[1:]
        self._take([*before, *later])

    def save(self) -> None:
        """Write the current entries; blocking, any thread. Raises OSError."""
        self._write()

    def relocate(self, folder: str) -> None:
        """Note that the file was moved to another folder; the caller holds `writing`."""
        self._path = f"{folder}/{FILE_NAME}"

    def clear(self) -> None:
        """Remove all epochs. Raises OSError."""
        self._take([])
        self._write()

    def retire(self) -> None:
        """Write nothing from now on: the log is deleted, and its folder may already hold another log."""
        self._retired = True

    def _write(self) -> None:
        with self.writing:
            if self._retired:
                return
            # Cleared before the entries are copied: an epoch that begins during the write will not be in the file.
            unsaved_from, self._unsaved_from = self._unsaved_from, None
            try:
                write_checkpoint(self._fs, self._path, lines_of(list(self._entries)))
            except OSError:
                if unsaved_from is not None:
                    self._note_unsaved(unsaved_from)
                raise
