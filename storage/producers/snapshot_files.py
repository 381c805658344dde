"""The snapshot files in a partition's folder: what its log knows about its producers up to an offset.

Layout of Kafka's version 1: int16 version, uint32 CRC-32C of all that follows, int32 count, entries of 46 bytes
(Kafka's `ProducerSnapshot`, `SnapshotFile`, and `ProducerStateManager`'s map of the files).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Set
from typing import NamedTuple

from protocol.records.crc import crc32c
from storage.files import FileSystem, read_file, write_fully

SUFFIX = ".snapshot"
VERSION = 1

_PREFIX = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")


class SnapshotEntry(NamedTuple):
    """One producer and one of its batches; -1 stands for none. The last of a producer's rows has its state."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    txn_first_offset: int


class CorruptSnapshotError(ValueError):
    """The file is torn, or its version is unknown."""


def file_name(offset: int) -> str:
    """Name of the snapshot of everything below `offset`."""
    return f"{offset:020d}{SUFFIX}"


def offset_of(name: str) -> int | None:
    """The offset in a snapshot's file name, None for other files."""
    stem = name.removesuffix(SUFFIX)
    return int(stem) if stem != name and stem.isdecimal() else None


def encode(entries: Iterable[SnapshotEntry]) -> bytes:
    """The whole file."""
    packed = [_ENTRY.pack(*entry) for entry in entries]
    body = b"".join((_COUNT.pack(len(packed)), *packed))
    return _PREFIX.pack(VERSION, crc32c(body)) + body


def decode(data: bytes) -> list[SnapshotEntry]:
    """The entries of a file. Raises CorruptSnapshotError."""
    if len(data) < _PREFIX.size + _COUNT.size:
        raise CorruptSnapshotError("the file is cut short")
    version, crc = _PREFIX.unpack_from(data)
    if version != VERSION:
        raise CorruptSnapshotError(f"unknown version {version}")
    body = memoryview(data)[_PREFIX.size :]
    if crc32c(body) != crc:
        raise CorruptSnapshotError("the checksum does not match")
    (count,) = _COUNT.unpack_from(body)
    if count < 0 or len(body) != _COUNT.size + count * _ENTRY.size:
        raise CorruptSnapshotError("the size does not match the count")
    return [SnapshotEntry._make(fields) for fields in _ENTRY.iter_unpack(body[_COUNT.size :])]


class SnapshotFiles:
    """The snapshots by offset: each is the state of all producers below its offset."""

    def __init__(self, fs: FileSystem, folder: str) -> None:
        self._fs = fs
        self._folder = folder
        found = map(offset_of, fs.listdir(folder))
        self._offsets = sorted(offset for offset in found if offset is not None)
        self._unsynced: list[str] = []

    @property
    def offsets(self) -> tuple[int, ...]:
        """Ascending."""
        return tuple(self._offsets)

    @property
    def newest(self) -> int | None:
        """The highest offset, None without a snapshot."""
        return self._offsets[-1] if self._offsets else None

    def path(self, offset: int) -> str:
        """Where the snapshot of `offset` is or would be."""
        return f"{self._folder}/{file_name(offset)}"

    def read(self, offset: int) -> list[SnapshotEntry]:
        """Raises OSError, CorruptSnapshotError."""
        return decode(read_file(self._fs, self.path(offset)))

    def write(self, offset: int, entries: Iterable[SnapshotEntry]) -> str:
        """Write a snapshot newer than all others; `take_unsynced` lists it until it is synced. Returns the path.

        Raises OSError.
        """
        path = self.path(offset)
        file = self._fs.open(path, create=True)
        try:
            file.truncate(0)
            write_fully(file, encode(entries), 0)
        finally:
            file.close()
        self._offsets.append(offset)
        self._unsynced.append(path)
        return path

    def take_unsynced(self) -> list[str]:
        """The files written since the last call that still exist; the caller syncs them."""
        taken, self._unsynced = self._unsynced, []
        return taken

    def relocate(self, folder: str) -> None:
        """Note that the snapshot files were moved to another folder."""
        self._folder = folder
        self._unsynced = [f"{folder}/{path.rpartition('/')[2]}" for path in self._unsynced]

    def forget(self, offset: int) -> str | None:
        """Forget the snapshot of a removed segment; return its path for the caller to remove, None if there is none."""
        if offset not in self._offsets:
            return None
        path = self.path(offset)
        self._offsets.remove(offset)
        if path in self._unsynced:
            self._unsynced.remove(path)
        return path

    def delete(self, offset: int) -> None:
        """Delete one snapshot; fine if its file is gone. Raises OSError."""
        path = self.path(offset)
        if self._fs.exists(path):
            self._fs.unlink(path)
        self.forget(offset)

    def delete_strays(self, segment_bases: Set[int]) -> None:
        """Delete the snapshots of earlier stops that belong to no segment; the newest stays. Raises OSError.

        The rule is ProducerStateManager.removeStraySnapshots'.
        """
        for offset in self._offsets[:-1]:
            if offset not in segment_bases:
                self.delete(offset)
