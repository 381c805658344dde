"""Segments of a partition, as a broker finds them after a crash: logs, transaction indexes and leader epochs.

Offset and time indexes and producer snapshots are made by the broker's recovery from these, as after any unclean stop;
transaction indexes are written since readers of files that no broker has opened need them. File formats are Kafka's
(LogSegment, TransactionIndex, LeaderEpochFileCache).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from odradek_pipeline.datasource.indexes import AbortedTxn
from odradek_pipeline.protocol.records.batch import BatchHeader
from odradek_pipeline.protocol.topic_partition import TopicPartition

SEGMENT_BYTES = 1 << 30
EPOCHS = "leader-epoch-checkpoint"
METADATA = "partition.metadata"
_MOST_DELTA = 2**31 - 1
_ABORTED = struct.Struct(">hqqqq")


class LogWriter:
    """Writes one partition's log into its folder, which has no segments yet."""

    def __init__(self, folder: Path, start: int) -> None:
        """`start` is the log's first offset. Raises OSError."""
        self.folder = folder
        self._file: BinaryIO | None = None
        self._base = self._size = 0
        self.epochs: list[tuple[int, int]] = []
        self.end = start
        folder.mkdir(exist_ok=True)

    def append(self, header: BatchHeader, data: bytes | bytearray, *, roll: bool = False) -> None:
        """A batch whose header is given; with `roll` it begins a segment. Raises OSError.

        A segment begins where the one before it ends: one behind a gap would be taken for what a crash has left.
        """
        far = header.base_offset + header.last_offset_delta - self._base > _MOST_DELTA
        if self._file is None or roll or far or (self._size and self._size + len(data) > SEGMENT_BYTES):
            gap = header.base_offset + header.last_offset_delta - self.end > _MOST_DELTA
            self._roll(header.base_offset if gap else min(self.end, header.base_offset))
        assert self._file is not None
        self._file.write(data)
        self._size += len(data)
        self.end = header.next_offset
        if header.leader_epoch >= 0 and (not self.epochs or header.leader_epoch > self.epochs[-1][0]):
            self.epochs.append((header.leader_epoch, header.base_offset))

    def aborted(self, txn: AbortedTxn, last_stable_offset: int) -> None:
        """Note an aborted transaction, whose marker was the last batch. Raises OSError."""
        entry = _ABORTED.pack(0, txn.producer_id, txn.first_offset, txn.last_offset, last_stable_offset)
        with open(self.folder / f"{self._base:020d}.txnindex", "ab") as file:
            file.write(entry)
            _sync(file)

    def close(self, end: int) -> None:
        """Write what is left, durably. A log that ends later, at `end`, gets an empty segment. Raises OSError."""
        if self._file is None:
            self._roll(self.end)
        if self.end < end:
            self._roll(end)
        self._finish_file()
        write_checkpoint(self.folder / EPOCHS, [f"{epoch} {offset}" for epoch, offset in self.epochs])
        sync_folder(self.folder)

    def _roll(self, base: int) -> None:
        self._finish_file()
        self._base, self._size = base, 0
        self._file = open(self.folder / f"{base:020d}.log", "wb")  # noqa: SIM115  closed by _finish_file

    def _finish_file(self) -> None:
        if self._file is not None:
            _sync(self._file)
            self._file.close()


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def draft_of(path: Path) -> Path:
    """Where `write_file` writes a file before it has its name; a kill may leave it there."""
    return path.with_name(f"{path.name}.tmp")


def write_file(path: Path, text: str) -> None:
    """Replace a file, atomically and durably. Raises OSError."""
    draft = draft_of(path)
    with open(draft, "wb") as file:
        file.write(text.encode())
        _sync(file)
    draft.replace(path)
    sync_folder(path.parent)


def write_checkpoint(path: Path, lines: list[str]) -> None:
    """One of Kafka's checkpoints (CheckpointFile). Raises OSError."""
    write_file(path, "\n".join(("0", str(len(lines)), *lines)) + "\n")


def write_offsets(path: Path, offsets: Mapping[TopicPartition, int]) -> None:
    """A checkpoint of offsets by partition (OffsetCheckpointFile). Raises OSError."""
    rows = [f"{place.topic} {place.partition} {offset}" for place, offset in sorted(offsets.items())]
    write_checkpoint(path, rows)
