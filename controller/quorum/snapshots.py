"""Snapshots of the metadata log: `<offset>-<epoch>.checkpoint` (Kafka's `Snapshots`, `RecordsSnapshotWriter`; KIP-630).

A snapshot has a control batch that begins with a SnapshotHeader, batches of records, and a control batch with a
SnapshotFooter. The offset in its name is the one after the last record that it covers, the epoch that record's. The
one of offset 0 and epoch 0 is the bootstrap snapshot: it covers nothing, and has the records to begin a log with.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from controller.quorum.facts import LogFacts
from controller.quorum.metadata_batches import (
    CommittedBatch,
    DamagedError,
    MetadataLogError,
    OpenBatch,
    control_batch,
    damaged,
    decode_batch,
    encode_values,
    good_batches,
)
from protocol.errors import PositionOutOfRange, SnapshotNotFound
from protocol.metadata.brokers import SnapshotFooterRecord, SnapshotHeaderRecord
from storage.files import FileSystem, write_fully

_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_LEFTOVER = re.compile(r"\d{20}-\d{10}.*\.checkpoint\.(part|deleted|tmp)")


class SnapshotId(NamedTuple):
    """The offset after the last record that a snapshot covers, and that record's epoch."""

    offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        return f"{self.offset:020d}-{self.epoch:010d}.checkpoint"


BOOTSTRAP = SnapshotId(0, 0)


def list_snapshots(fs: FileSystem, folder: str) -> tuple[list[SnapshotId], list[str]]:
    """The snapshots in the folder, oldest first, and the names of unfinished and removed ones. Raises OSError."""
    found, leftovers = [], []
    for name in fs.listdir(folder):
        match = _NAME.fullmatch(name)
        if match is not None:
            found.append(SnapshotId(int(match[1]), int(match[2])))
        elif _LEFTOVER.fullmatch(name):
            leftovers.append(name)
    return sorted(found), leftovers


def check(fs: FileSystem, path: str) -> LogFacts:
    """Read a whole snapshot. Raises MetadataLogError if it is damaged or has unknown records; OSError."""
    facts = LogFacts()
    file = fs.open_to_read(path)
    try:
        end = offset = 0
        for position, header, batch in good_batches(file, 0, 0):
            facts.note(header, batch, path)
            if offset == 0 and facts.snapshot_timestamp < 0:
                raise DamagedError(f"{path} is no snapshot: it does not begin with a SnapshotHeader.")
            end, offset = position + header.size, header.next_offset
        if end != file.size():
            raise damaged(path, end, offset)
        if facts.last_control != "SnapshotFooterRecord":
            raise DamagedError(f"{path} is not complete: it does not end with a SnapshotFooter.")
    finally:
        file.close()
    return facts


def read(fs: FileSystem, path: str, snapshot: SnapshotId, timestamp: int) -> Iterator[CommittedBatch]:
    """The batches of records in a snapshot that `check` has read. Raises MetadataLogError, OSError."""
    file = fs.open_to_read(path)
    try:
        for _, header, batch in good_batches(file, 0, 0):
            if not header.is_control:
                yield CommittedBatch(snapshot.offset - 1, snapshot.epoch, timestamp, decode_batch(header, batch, path))
    finally:
        file.close()


def read_part(fs: FileSystem, path: str, position: int, most: int) -> tuple[bytes, int]:
    """At most so many bytes of the file from `position` on, and its size. Blocking.

    Raises SnapshotNotFound, PositionOutOfRange, OSError.
    """
    try:
        file = fs.open_to_read(path)
    except FileNotFoundError as error:
        raise SnapshotNotFound from error
    try:
        size = file.size()
        if not 0 <= position < size:
            raise PositionOutOfRange
        return bytes(file.pread(min(most, size - position), position)), size
    finally:
        file.close()


def write(
    fs: FileSystem,
    folder: str,
    snapshot: SnapshotId,
    records: Iterable[Any],
    *,
    timestamp: int,
    quorum: Sequence[Any],
    now_ms: Callable[[], int],
) -> int:
    """Write a snapshot, atomically and durably, and return its size in bytes; blocking.

    `timestamp` is that of the last record that it covers; `quorum` are the control records that follow the header.
    Raises OSError, and then nothing is left; MetadataLogError for a record that no batch holds.
    """
    path = f"{folder}/{snapshot.file_name}"
    part = f"{path}.part"
    file = fs.open(part, create=True)
    try:
        try:
            file.truncate(0)
            position = 0
            for batch in _batches(snapshot.epoch, records, timestamp, quorum, now_ms):
                write_fully(file, batch, position)
                position += len(batch)
            file.fdatasync()
        finally:
            file.close()
        fs.rename(part, path)
    except (OSError, MetadataLogError):
        fs.unlink(part)
        raise
    fs.fsync_dir(folder)
    return position


def _batches(
    epoch: int, records: Iterable[Any], timestamp: int, quorum: Sequence[Any], now_ms: Callable[[], int]
) -> Iterator[bytearray]:
    header = SnapshotHeaderRecord(version=0, last_contained_log_timestamp=timestamp)
    yield control_batch([header, *quorum], 0, epoch, now_ms())
    batch = OpenBatch(1 + len(quorum))
    for value in _values(records):
        if not batch.add([value]):
            yield batch.close(epoch, now_ms())
            batch = OpenBatch(batch.last_offset + 1)
            if not batch.add([value]):
                raise MetadataLogError(f"A record of {len(value)} bytes is larger than a batch may be.")
    if batch.count:
        yield batch.close(epoch, now_ms())
    yield control_batch([SnapshotFooterRecord(version=0)], batch.last_offset + 1, epoch, now_ms())


def _values(records: Iterable[Any]) -> Iterator[bytes]:
    for record in records:
        yield from encode_values((record,))
