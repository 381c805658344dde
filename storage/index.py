"""The sparse indexes of a segment: offset -> position and timestamp -> offset, in Kafka's file format.

Entries are big-endian and without padding (Kafka's OffsetIndex and TimeIndex, trimmed as Kafka trims them on a roll).
They live in memory as arrays, loaded at first use (also by a worker thread: hence the lock), and go to their file
when the owner says `write_out`: a crash may lose entries of the active segment, whose indexes recovery rebuilds anyway.
"""

import struct
import sys
import threading
from array import array
from bisect import bisect_left, bisect_right
from typing import NamedTuple

from storage.files import FileSystem, read_file, write_fully

MAX_RELATIVE_OFFSET = 2**31 - 1
_TIME_ENTRY = struct.Struct(">qI")
_OFFSET_ENTRY = struct.Struct(">II")


class CorruptIndexError(Exception):
    """The index file cannot be right for its segment; rebuild it from the log."""


class TimestampOffset(NamedTuple):
    """A timestamp in milliseconds (-1: none) and an absolute offset."""

    timestamp: int
    offset: int


class _IndexFile:
    """An index file, of which the first `written` entries match memory; `lock` is held while it is read or renamed."""

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
        """An empty file, as Kafka has one from a segment's first moment."""
        file = self._fs.open(self.path, create=True)
        try:
            file.truncate(0)
        finally:
            file.close()
        self.written = 0

    def write(self, tail: bytes) -> None:
        """Put the entries after the first `written` ones into the file, which may have become shorter."""
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
        """Not while another thread loads it."""
        with self.lock:
            self._fs.rename(self.path, path)
            self.path = path

    def tail(self, entries: int) -> bytes:
        """At most the last `entries` entries, without loading the rest."""
        file = self._fs.open(self.path)
        try:
            size = file.size()
            if size % self.entry_size:
                raise CorruptIndexError(f"{self.path} has {size} bytes, not a multiple of {self.entry_size}")
            wanted = min(size, entries * self.entry_size)
            return file.pread(wanted, size - wanted)
        finally:
            file.close()


class OffsetIndex:
    """Relative last offset of a batch -> the batch's position; 8 bytes an entry."""

    ENTRY_SIZE = 8
    __slots__ = ("_file", "_offsets", "_positions")

    def __init__(self, fs: FileSystem, path: str, base_offset: int, max_bytes: int) -> None:
        self._file = _IndexFile(fs, path, base_offset, max_bytes, self.ENTRY_SIZE)
        self._offsets: array[int] | None = None
        self._positions: array[int] = array("I")

    @property
    def path(self) -> str:
        """The file's path."""
        return self._file.path

    @property
    def lock(self) -> threading.Lock:
        """Held while the index is loaded, or its file given another name."""
        return self._file.lock

    def relocate(self, path: str) -> None:
        """The file lies elsewhere now; the caller holds `lock`."""
        self._file.path = path

    def rename(self, path: str) -> None:
        """Give the file another name; any thread. Raises OSError."""
        self._file.rename(path)

    def reset(self) -> None:
        """Start over with an empty file."""
        self._file.create()
        self._offsets, self._positions = array("I"), array("I")

    def load(self) -> "array[int]":
        """The relative offsets. Raises CorruptIndexError or OSError if the file is wrong or missing."""
        if self._offsets is not None:
            return self._offsets
        with self._file.lock:
            if self._offsets is None:
                entries = array("I", self._file.read())
                if sys.byteorder == "little":
                    entries.byteswap()
                self._positions = entries[1::2]
                self._offsets = entries[0::2]
        return self._offsets

    @property
    def is_loaded(self) -> bool:
        return self._offsets is not None

    def __len__(self) -> int:
        return len(self.load())

    def entries(self) -> list[tuple[int, int]]:
        """Every (absolute offset, position)."""
        base = self._file.base_offset
        return [(base + offset, position) for offset, position in zip(self.load(), self._positions, strict=True)]

    def is_full(self) -> bool:
        return len(self.load()) >= self._file.max_entries

    def sanity_check(self, log_size: int) -> None:
        """Raises CorruptIndexError unless the file's last entries rise and point into the log's `log_size` bytes."""
        before = -1
        for offset, position in _OFFSET_ENTRY.iter_unpack(self._file.tail(2)):
            if offset <= before or position >= log_size:
                raise CorruptIndexError(f"{self.path} ends in {offset} -> {position}, after {before}; log: {log_size}")
            before = offset

    def append(self, offset: int, position: int) -> None:
        """Add the entry of a batch whose last offset is `offset`."""
        offsets = self.load()
        self._positions.append(position)  # first: a lookup in another thread goes by the offsets
        offsets.append(offset - self._file.base_offset)

    def lookup(self, offset: int) -> int:
        """Position of the last indexed batch whose last offset is at most `offset`; 0 if there is none."""
        slot = bisect_right(self.load(), offset - self._file.base_offset) - 1
        return self._positions[slot] if slot >= 0 else 0

    def upper_bound(self, position: int) -> int | None:
        """Offset of the first entry at or after a position, or None (Kafka's fetchUpperBoundOffset)."""
        offsets = self.load()
        slot = bisect_left(self._positions, position)
        return self._file.base_offset + offsets[slot] if slot < len(offsets) else None

    def last_position(self) -> int:
        """Position of the last entry, 0 if there is none; does not load the index."""
        if self._offsets is not None:
            return self._positions[-1] if self._offsets else 0
        tail = self._file.tail(1)
        return int.from_bytes(tail[4:]) if tail else 0

    def truncate_to(self, offset: int) -> None:
        """Drop entries at or above `offset`."""
        offsets = self.load()
        keep = bisect_left(offsets, offset - self._file.base_offset)
        del offsets[keep:], self._positions[keep:]
        if self._file.written > keep:
            self._file.written = keep
            self._file.write(b"")

    def write_out(self) -> None:
        """Bring the file up to date (page cache only)."""
        if self._offsets is None or self._file.written == len(self._offsets):
            return
        pairs = array("I", bytes(8 * (len(self._offsets) - self._file.written)))
        pairs[0::2] = self._offsets[self._file.written :]
        pairs[1::2] = self._positions[self._file.written :]
        if sys.byteorder == "little":
            pairs.byteswap()
        self._file.write(pairs.tobytes())


class TimeIndex:
    """Largest timestamp so far -> relative offset of the batch that has it; 12 bytes an entry."""

    ENTRY_SIZE = 12
    __slots__ = ("_file", "_offsets", "_timestamps")

    def __init__(self, fs: FileSystem, path: str, base_offset: int, max_bytes: int) -> None:
        self._file = _IndexFile(fs, path, base_offset, max_bytes, self.ENTRY_SIZE)
        self._timestamps: array[int] | None = None
        self._offsets: array[int] = array("I")

    @property
    def path(self) -> str:
        """The file's path."""
        return self._file.path

    @property
    def lock(self) -> threading.Lock:
        """Held while the index is loaded, or its file given another name."""
        return self._file.lock

    def relocate(self, path: str) -> None:
        """The file lies elsewhere now; the caller holds `lock`."""
        self._file.path = path

    def rename(self, path: str) -> None:
        """Give the file another name; any thread. Raises OSError."""
        self._file.rename(path)

    def reset(self) -> None:
        """Start over with an empty file."""
        self._file.create()
        self._timestamps, self._offsets = array("q"), array("I")

    def load(self) -> "array[int]":
        """The timestamps. Raises CorruptIndexError or OSError if the file is wrong or missing."""
        if self._timestamps is not None:
            return self._timestamps
        with self._file.lock:
            if self._timestamps is None:
                timestamps, offsets = array("q"), array("I")
                for timestamp, offset in _TIME_ENTRY.iter_unpack(self._file.read()):
                    timestamps.append(timestamp)
                    offsets.append(offset)
                self._offsets = offsets
                self._timestamps = timestamps
        return self._timestamps

    def __len__(self) -> int:
        return len(self.load())

    def entries(self) -> list[TimestampOffset]:
        """Every entry, with absolute offsets."""
        base = self._file.base_offset
        return [TimestampOffset(time, base + offset) for time, offset in zip(self.load(), self._offsets, strict=True)]

    def is_full(self) -> bool:
        """One slot stays free for the entry that closes the segment."""
        return len(self.load()) >= self._file.max_entries - 1

    def sanity_check(self) -> None:
        """Raises CorruptIndexError unless the file's last entries rise."""
        before = (-1, -1)
        for timestamp, offset in _TIME_ENTRY.iter_unpack(self._file.tail(2)):
            if timestamp <= before[0] or offset <= before[1]:
                raise CorruptIndexError(f"{self.path} ends in {timestamp} -> {offset}, after {before}")
            before = timestamp, offset

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Add an entry if the timestamp is larger than the last one's."""
        timestamps = self.load()
        if timestamp <= (timestamps[-1] if timestamps else -1):
            return
        self._offsets.append(
            offset - self._file.base_offset
        )  # first: a lookup in another thread goes by the timestamps
        timestamps.append(timestamp)

    def last_entry(self) -> TimestampOffset:
        """The largest timestamp indexed, (-1, base offset) when empty; does not load the index."""
        timestamps = self._timestamps
        if timestamps is None:
            tail = self._file.tail(1)
            timestamp, offset = _TIME_ENTRY.unpack(tail) if tail else (-1, 0)
        else:
            timestamp, offset = (timestamps[-1], self._offsets[-1]) if timestamps else (-1, 0)
        return TimestampOffset(timestamp, self._file.base_offset + offset)

    def lookup(self, timestamp: int) -> TimestampOffset:
        """The last entry at or before a timestamp; (-1, base offset) if there is none."""
        timestamps = self.load()
        slot = bisect_right(timestamps, timestamp) - 1
        if slot < 0:
            return TimestampOffset(-1, self._file.base_offset)
        return TimestampOffset(timestamps[slot], self._file.base_offset + self._offsets[slot])

    def truncate_to(self, offset: int) -> None:
        """Drop entries at or above `offset`."""
        timestamps = self.load()
        keep = bisect_left(self._offsets, offset - self._file.base_offset)
        del timestamps[keep:], self._offsets[keep:]
        if self._file.written > keep:
            self._file.written = keep
            self._file.write(b"")

    def write_out(self) -> None:
        """Bring the file up to date (page cache only)."""
        if self._timestamps is None or self._file.written == len(self._timestamps):
            return
        start = self._file.written
        tail = zip(self._timestamps[start:], self._offsets[start:], strict=True)
        self._file.write(b"".join(_TIME_ENTRY.pack(timestamp, offset) for timestamp, offset in tail))
