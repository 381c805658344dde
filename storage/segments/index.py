"""The sparse indexes of a segment: offset -> position and timestamp -> offset, in Kafka's file format.

Entries are big-endian and without padding (Kafka's OffsetIndex and TimeIndex, trimmed as Kafka trims them on a roll).
They live in memory as arrays, loaded at first use (also by a worker thread: hence the lock) and dropped when idle. They
are written to their file when the owner calls `write_out`: a crash may lose entries of the active segment, whose
indexes recovery rebuilds anyway.

How it works: an entry is made about every `index.interval.bytes`, so a lookup finds the last entry at or before what is
looked for, and the batches from there on are scanned. An index that contradicts its segment is made anew from the log.
"""

from __future__ import annotations

import struct
import sys
import threading
from abc import ABC, abstractmethod
from array import array
from bisect import bisect_left, bisect_right
from typing import NamedTuple

from storage.files import FileSystem, read_file, write_fully

MAX_RELATIVE_OFFSET = 2**31 - 1
_TIME_ENTRY = struct.Struct(">qI")
_OFFSET_ENTRY = struct.Struct(">II")


class CorruptIndexError(Exception):
    """The index file does not match its segment; rebuild it from the log."""


class TimestampOffset(NamedTuple):
    """A timestamp in milliseconds (-1: none) and an absolute offset."""

    timestamp: int
    offset: int


class _IndexFile:
    """An index file; its first `written` entries match memory. `lock` is held while it is read or renamed."""

    __slots__ = ("_fs", "base_offset", "entry_size", "lock", "max_entries", "path", "written")

    def __init__(self, fs: FileSystem, path: str, base_offset: int, max_bytes: int, entry_size: int) -> None:
        self._fs = fs
        self.path = path
        self.base_offset = base_offset
        self.entry_size = entry_size
        self.max_entries = max_bytes // entry_size
        self.lock = threading.Lock()
        self.written = 0

    def create(self) -> None:
        """Create an empty file: in Kafka there is one from a segment's first moment."""
        file = self._fs.open(self.path, create=True)
        try:
            file.truncate(0)
        finally:
            file.close()
        self.written = 0

    def write(self, tail: bytes) -> None:
        """Write the entries after the first `written` ones to the file, and cut it to their number."""
        file = self._fs.open(self.path, create=True)
        try:
            start = self.written * self.entry_size
            if file.size() > start:
                file.truncate(start)
            write_fully(file, tail, start)
        finally:
            file.close()
        self.written += len(tail) // self.entry_size

    def read(self) -> bytes:
        data = read_file(self._fs, self.path)
        if len(data) % self.entry_size:
            raise CorruptIndexError(f"{self.path} has {len(data)} bytes, not a multiple of {self.entry_size}")
        self.written = len(data) // self.entry_size
        return data

    def rename(self, path: str) -> None:
        """Rename the file, but not while another thread loads it."""
        with self.lock:
            self._fs.rename(self.path, path)
            self.path = path

    def tail(self, entries: int) -> bytes:
        """At most the last `entries` entries, without loading the others."""
        file = self._fs.open(self.path)
        try:
            size = file.size()
            if size % self.entry_size:
                raise CorruptIndexError(f"{self.path} has {size} bytes, not a multiple of {self.entry_size}")
            wanted = min(size, entries * self.entry_size)
            return file.pread(wanted, size - wanted)
        finally:
            file.close()


class _Index(ABC):
    """The part of an index that is in memory while it is in use.

    A reader in another thread uses the pair that `load` returned, which stays valid even if the index is dropped.
    """

    __slots__ = ("_entries", "_file", "_used")

    def __init__(self, file: _IndexFile) -> None:
        self._file = file
        self._entries: tuple[array[int], array[int]] | None = None
        self._used = False

    @property
    def path(self) -> str:
        """The file's path."""
        return self._file.path

    @property
    def lock(self) -> threading.Lock:
        """Held while the index is loaded, or its file renamed."""
        return self._file.lock

    def relocate(self, path: str) -> None:
        """Note that the file lies elsewhere now; the caller holds `lock`."""
        self._file.path = path

    def rename(self, path: str) -> None:
        """Rename the file; any thread. Raises OSError."""
        self._file.rename(path)

    def reset(self) -> None:
        """Start over with an empty file."""
        self._file.create()
        self._entries = self._decode(b"")

    def load(self) -> tuple[array[int], array[int]]:
        """The two columns. Raises CorruptIndexError or OSError if the file is wrong or missing."""
        self._used = True
        entries = self._entries
        if entries is not None:
            return entries
        with self._file.lock:
            entries = self._entries
            if entries is None:
                self._entries = entries = self._decode(self._file.read())
            return entries

    @abstractmethod
    def _decode(self, data: bytes) -> tuple[array[int], array[int]]:
        """The two columns of the file's content. Raises CorruptIndexError."""

    @property
    def is_loaded(self) -> bool:
        return self._entries is not None

    def drop_if_idle(self) -> None:
        """Drop the entries from memory if unused since the last call; for indexes that no longer grow."""
        if self._entries is not None and not self._used and self._file.written == len(self._entries[0]):
            self._entries = None
        self._used = False

    def write_out(self) -> None:
        """Bring the file up to date (page cache only)."""
        if self._entries is not None and self._file.written < len(self._entries[0]):
            self._file.write(self._encode(*self._entries, self._file.written))

    @abstractmethod
    def _encode(self, keys: array[int], values: array[int], start: int) -> bytes:
        """The file's content from entry number `start` on."""

    def _keep(self, count: int) -> None:
        """Drop all but the first `count` entries, in the file too."""
        for column in self.load():
            del column[count:]
        if self._file.written > count:
            self._file.written = count
            self._file.write(b"")

    def __len__(self) -> int:
        return len(self.load()[0])


_WARM_ENTRIES = 8192 // 8
"""Kafka first searches an index's last entries, which stay in the page cache."""


def decode_offsets(data: bytes) -> tuple[array[int], array[int]]:
    """The columns of an offset index: relative offsets, positions. Raises ValueError for half an entry."""
    entries = array("I", data)
    if sys.byteorder == "little":
        entries.byteswap()
    return entries[0::2], entries[1::2]


def decode_times(data: bytes) -> tuple[array[int], array[int]]:
    """The columns of a time index: timestamps, relative offsets. Raises struct.error for half an entry."""
    timestamps, offsets = array("q"), array("I")
    for timestamp, offset in _TIME_ENTRY.iter_unpack(data):
        timestamps.append(timestamp)
        offsets.append(offset)
    return timestamps, offsets


class OffsetIndex(_Index):
    """Relative last offset of a batch -> the batch's position; 8 bytes an entry."""

    ENTRY_SIZE = 8
    __slots__ = ()

    def __init__(self, fs: FileSystem, path: str, base_offset: int, max_bytes: int) -> None:
        super().__init__(_IndexFile(fs, path, base_offset, max_bytes, self.ENTRY_SIZE))

    def _decode(self, data: bytes) -> tuple[array[int], array[int]]:
        return decode_offsets(data)

    def entries(self) -> list[tuple[int, int]]:
        """Every (absolute offset, position)."""
        base = self._file.base_offset
        return [(base + offset, position) for offset, position in zip(*self.load(), strict=True)]

    def is_full(self) -> bool:
        return len(self) >= self._file.max_entries

    def sanity_check(self, log_size: int) -> None:
        """Raises CorruptIndexError unless the file's last entries rise and point into the log's `log_size` bytes."""
        before = -1
        for offset, position in _OFFSET_ENTRY.iter_unpack(self._file.tail(2)):
            if offset <= before or position >= log_size:
                raise CorruptIndexError(f"{self.path} ends in {offset} -> {position}, after {before}; log: {log_size}")
            before = offset

    def append(self, offset: int, position: int) -> None:
        """Add the entry of a batch whose last offset is `offset`."""
        offsets, positions = self.load()
        positions.append(position)  # first, as another thread may search the offsets
        offsets.append(offset - self._file.base_offset)

    def lookup(self, offset: int) -> int:
        """Position of the last indexed batch whose last offset is at most `offset`; 0 if there is none."""
        offsets, positions = self.load()
        slot = bisect_right(offsets, offset - self._file.base_offset) - 1
        return positions[slot] if slot >= 0 else 0

    def upper_bound(self, position: int) -> int | None:
        """Offset of the first entry at or after a position, or None (Kafka's fetchUpperBoundOffset).

        As in Kafka, an entry exactly at the position is skipped where the search ends on it without having compared it.
        A Fetch then lists aborted transactions up to the next entry, more than it needs to.
        """
        offsets, positions = self.load()
        slot = bisect_left(positions, position)
        if slot < len(positions) and positions[slot] == position and not _compares(slot, len(positions)):
            slot += 1
        return self._file.base_offset + offsets[slot] if slot < len(offsets) else None

    def last_position(self) -> int:
        """Position of the last entry, 0 if there is none; does not load the index."""
        if self._entries is not None:
            return self._entries[1][-1] if self._entries[1] else 0
        tail = self._file.tail(1)
        return int.from_bytes(tail[4:]) if tail else 0

    def truncate_to(self, offset: int) -> None:
        """Drop entries at or above `offset`."""
        offsets, _ = self.load()
        self._keep(bisect_left(offsets, offset - self._file.base_offset))

    def _encode(self, keys: array[int], values: array[int], start: int) -> bytes:
        pairs = array("I", bytes(self.ENTRY_SIZE * (len(keys) - start)))
        pairs[0::2] = keys[start:]
        pairs[1::2] = values[start:]
        if sys.byteorder == "little":
            pairs.byteswap()
        return pairs.tobytes()


def _compares(slot: int, entries: int) -> bool:
    """Whether Kafka's search for the entry in `slot` looks at it (AbstractIndex.indexSlotRangeFor)."""
    first_warm = max(0, entries - 1 - _WARM_ENTRIES)
    low, high = (first_warm, entries - 1) if slot > first_warm else (0, first_warm)
    while low < high:
        middle = (low + high + 1) // 2
        if middle == slot:
            return True
        low, high = (low, middle - 1) if middle > slot else (middle, high)
    return False


class TimeIndex(_Index):
    """Largest timestamp so far -> relative offset of the batch that has it; 12 bytes an entry."""

    ENTRY_SIZE = 12
    __slots__ = ()

    def __init__(self, fs: FileSystem, path: str, base_offset: int, max_bytes: int) -> None:
        super().__init__(_IndexFile(fs, path, base_offset, max_bytes, self.ENTRY_SIZE))

    def _decode(self, data: bytes) -> tuple[array[int], array[int]]:
        return decode_times(data)

    def entries(self) -> list[TimestampOffset]:
        """Every entry, with absolute offsets."""
        base = self._file.base_offset
        return [TimestampOffset(time, base + offset) for time, offset in zip(*self.load(), strict=True)]

    def is_full(self) -> bool:
        """Whether there is no room left, apart from one slot for the entry that closes the segment."""
        return len(self) >= self._file.max_entries - 1

    def sanity_check(self) -> None:
        """Raises CorruptIndexError unless the file's last entries rise."""
        before = (-1, -1)
        for timestamp, offset in _TIME_ENTRY.iter_unpack(self._file.tail(2)):
            if timestamp <= before[0] or offset <= before[1]:
                raise CorruptIndexError(f"{self.path} ends in {timestamp} -> {offset}, after {before}")
            before = timestamp, offset

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Add an entry if the timestamp is larger than the last one's."""
        timestamps, offsets = self.load()
        if timestamp <= (timestamps[-1] if timestamps else -1):
            return
        offsets.append(offset - self._file.base_offset)  # first, as another thread may search the timestamps
        timestamps.append(timestamp)

    def last_entry(self) -> TimestampOffset:
        """The largest timestamp indexed, (-1, base offset) when empty; does not load the index."""
        if self._entries is None:
            tail = self._file.tail(1)
            timestamp, offset = _TIME_ENTRY.unpack(tail) if tail else (-1, 0)
        else:
            timestamps, offsets = self._entries
            timestamp, offset = (timestamps[-1], offsets[-1]) if timestamps else (-1, 0)
        return TimestampOffset(timestamp, self._file.base_offset + offset)

    def lookup(self, timestamp: int) -> TimestampOffset:
        """The last entry at or before a timestamp; (-1, base offset) if there is none."""
        timestamps, offsets = self.load()
        slot = bisect_right(timestamps, timestamp) - 1
        if slot < 0:
            return TimestampOffset(-1, self._file.base_offset)
        return TimestampOffset(timestamps[slot], self._file.base_offset + offsets[slot])

    def truncate_to(self, offset: int) -> None:
        """Drop entries at or above `offset`."""
        _, offsets = self.load()
        self._keep(bisect_left(offsets, offset - self._file.base_offset))

    def _encode(self, keys: array[int], values: array[int], start: int) -> bytes:
        entries = zip(keys[start:], values[start:], strict=True)
        return b"".join(_TIME_ENTRY.pack(timestamp, offset) for timestamp, offset in entries)
