"""The files beside a log, as Kafka writes them: offset, time and transaction index, producer snapshot.

A broker may be writing them, and Kafka keeps those of the active segment at their full size, padded with zeros. So the
first two are read only as far as their entries rise, and are only ever used as hints. All numbers are big-endian.
`AbortedBatches` says which batches belong to aborted transactions.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from odradek_pipeline.datasource import walk
from odradek_pipeline.datasource.errors import CorruptLogError
from odradek_pipeline.datasource.places import OpenLog, Place
from odradek_pipeline.datasource.segments import Segment
from odradek_pipeline.protocol.records.batch import BatchHeader

_ABORTED = struct.Struct(">hqqqq")
_SNAPSHOT_PREFIX = struct.Struct(">hI")
_SNAPSHOT_COUNT = struct.Struct(">i")
_SNAPSHOT_ENTRY = struct.Struct(">q30xq")
_OFFSET_ENTRY = np.dtype([("offset", ">u4"), ("position", ">u4")])
_TIME_ENTRY = np.dtype([("timestamp", ">i8"), ("offset", ">u4")])

_BLOCK = 24 << 10
"""The whole entries of either index."""


class AbortedTxn(NamedTuple):
    """An aborted transaction: its producer, its first offset and the offset of its marker."""

    producer_id: int
    first_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True)
class OffsetIndex:
    """Offset -> a position where a batch starts, and before which there is no record above the offset."""

    offsets: NDArray[np.int64]
    positions: NDArray[np.int64]

    def lookup(self, offset: int) -> int:
        """Where to begin searching for an offset; 0 if there is no entry."""
        slot = bisect_right(self.offsets, offset) - 1
        return int(self.positions[slot]) if slot >= 0 else 0

    def position_after(self, offset: int) -> int | None:
        """A position a little after the batches below an offset; None if the last entry does not reach that far."""
        slot = bisect_left(self.offsets, offset)
        return int(self.positions[slot]) if slot < len(self.positions) else None


@dataclass(frozen=True, slots=True)
class TimeIndex:
    """Largest timestamp so far -> offset of the batch that has it. `complete`: no entry had to be left out."""

    timestamps: NDArray[np.int64]
    offsets: NDArray[np.int64]
    complete: bool

    def floor(self, timestamp: int) -> tuple[int, int] | None:
        """The last entry up to a time: records before its offset are older than that. None if there is none."""
        slot = bisect_right(self.timestamps, timestamp) - 1
        return (int(self.timestamps[slot]), int(self.offsets[slot])) if slot >= 0 else None

    @property
    def last(self) -> tuple[int, int] | None:
        """The entry with the largest timestamp of a segment that is no longer being written."""
        if not self.complete or not len(self.timestamps):
            return None
        return int(self.timestamps[-1]), int(self.offsets[-1])


def _risen(*columns: NDArray[np.int64]) -> int:
    """The number of entries before one that does not rise in every column."""
    count = len(columns[0])
    for column in columns:
        falls = np.flatnonzero(np.diff(column) <= 0)
        if falls.size:
            count = min(count, int(falls[0]) + 1)
    if count == 1 and not any(int(column[0]) for column in columns):
        return 0
    return count


def read_offset_index(segment: Segment) -> OffsetIndex:
    """The offset index, empty if the segment has none. Raises OSError."""
    entries = _read(segment.index, _OFFSET_ENTRY)
    offsets, positions = entries["offset"].astype(np.int64), entries["position"].astype(np.int64)
    count = _risen(offsets, positions)
    return OffsetIndex(offsets[:count] + segment.base_offset, positions[:count])


def start_of(log: OpenLog, segment: Segment, offset: int) -> int:
    """Where in a segment's log to begin to search for an offset. Raises OSError.

    An index has no checksum: one that points to no batch, or beyond the offset, would hide records. Then it is 0.
    """
    position = read_offset_index(segment).lookup(offset)
    header = walk.header_at(log, position, segment.base_offset)
    return position if header is not None and header.base_offset <= offset else 0


def read_time_index(segment: Segment) -> TimeIndex:
    """The time index, empty if the segment has none. Raises OSError."""
    entries = _read(segment.time_index, _TIME_ENTRY)
    timestamps, offsets = entries["timestamp"].astype(np.int64), entries["offset"].astype(np.int64)
    count = _risen(timestamps)
    if count == 1 and not int(timestamps[0]):
        count = 0
    complete = not timestamps[count:].any()
    return TimeIndex(timestamps[:count], offsets[:count] + segment.base_offset, complete)


def _read(place: Place | None, entry: np.dtype[np.void]) -> NDArray[np.void]:
    data = b"" if place is None else _written(place, entry.itemsize) if isinstance(place, str) else place.content()
    return np.frombuffer(data, entry, len(data) // entry.itemsize)


def _written(path: str, entry_size: int) -> bytes:
    """An index without most of the preallocated space: Kafka's active segments have 10 MB of zeros each."""
    blocks = []
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            blocks.append(block)
            if not any(block[-entry_size:]):
                break
    return b"".join(blocks)


def read_aborted(segment: Segment) -> list[AbortedTxn]:
    """The aborted transactions whose markers are in the segment. Raises OSError, CorruptLogError."""
    if segment.txn_index is None:
        return []
    data = Path(segment.txn_index).read_bytes() if isinstance(segment.txn_index, str) else segment.txn_index.content()
    found = []
    for version, producer_id, first, last, _ in _ABORTED.iter_unpack(
        data[: len(data) // _ABORTED.size * _ABORTED.size]
    ):
        if version != 0 or not 0 <= first <= last or last < segment.base_offset:
            raise CorruptLogError(
                f"{segment.txn_index} is no transaction index; a broker rebuilds it if it is removed."
            )
        found.append(AbortedTxn(producer_id, first, last))
    return found


def read_open_transactions(folder: str, offset: int) -> dict[int, int] | None:
    """The producers with an open transaction at an offset, and where it began, from the snapshot at that offset.

    None if the snapshot is torn, for instance because a broker is writing it. Raises OSError.
    """
    return decode_open_transactions(Path(f"{folder}/{offset:020d}.snapshot").read_bytes())


def decode_open_transactions(data: bytes) -> dict[int, int] | None:
    """As `read_open_transactions`, from what is in the snapshot."""
    if len(data) < _SNAPSHOT_PREFIX.size + _SNAPSHOT_COUNT.size:
        return None
    version, crc = _SNAPSHOT_PREFIX.unpack_from(data)
    body = memoryview(data)[_SNAPSHOT_PREFIX.size :]
    entries = body[_SNAPSHOT_COUNT.size :]
    if version != 1 or crc32c(body) != crc or len(entries) % _SNAPSHOT_ENTRY.size:
        return None
    last_rows = dict(_SNAPSHOT_ENTRY.iter_unpack(entries))  # the last of a producer's rows counts
    return {producer: first for producer, first in last_rows.items() if first >= 0}


class AbortedBatches:
    """`header in batches`: whether the batch belongs to one of the transactions.

    Transactions of one producer follow one another: for a batch, the last one that began before it is what counts.
    """

    def __init__(self, transactions: Iterable[AbortedTxn]) -> None:
        self._by_producer: dict[int, list[tuple[int, int]]] = {}
        for producer_id, first, last in transactions:
            self._by_producer.setdefault(producer_id, []).append((first, last))
        for of_producer in self._by_producer.values():
            of_producer.sort()

    def __contains__(self, header: BatchHeader) -> bool:
        if not header.is_transactional:
            return False
        of_producer = self._by_producer.get(header.producer_id)
        if of_producer is None:
            return False
        slot = bisect_right(of_producer, (header.base_offset, 1 << 63)) - 1
        return slot >= 0 and header.base_offset <= of_producer[slot][1]
