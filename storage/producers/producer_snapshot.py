"""Kafka's producer snapshot file, version 1: what a log knows about its producers up to an offset.

Layout: int16 version, uint32 CRC-32C of all that follows, int32 count, entries of 46 bytes (Kafka's ProducerSnapshot).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from crc32c import crc32c

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
