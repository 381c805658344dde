"""The segments of one log, ordered by base offset (Kafka's LogSegments), and where an offset lies in them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from protocol.records.batch import HEADER_SIZE, read_header
from storage.segments.segment import LogSegment


class LogOffsetMetadata(NamedTuple):
    """An offset and where it lies: the segment's base offset and the byte position in it (-1: not known)."""

    offset: int
    segment_base: int = -1
    position: int = -1


class TimestampOffsetEpoch(NamedTuple):
    """A record's timestamp (ms), offset and leader epoch (-1: not known)."""

    timestamp: int
    offset: int
    leader_epoch: int


new_offset_metadata: Callable[[tuple[int, int, int]], LogOffsetMetadata] = partial(tuple.__new__, LogOffsetMetadata)


class LogSegments:
    """Never empty once the log is open; the last one is active."""

    __slots__ = ("_bases", "_last_lookup", "_segments", "active")

    def __init__(self, segments: list[LogSegment]) -> None:
        self._segments = sorted(segments, key=lambda segment: segment.base_offset)
        self._bases = [segment.base_offset for segment in self._segments]
        self.active = self._segments[-1]
        self._last_lookup: tuple[int, int] | None = None  # the last argument and result of `batch_start`

    def __iter__(self) -> Iterator[LogSegment]:
        return iter(self._segments)

    def __len__(self) -> int:
        return len(self._segments)

    def __contains__(self, base_offset: int) -> bool:
        slot = bisect_left(self._bases, base_offset)
        return slot < len(self._bases) and self._bases[slot] == base_offset

    @property
    def first(self) -> LogSegment:
        return self._segments[0]

    @property
    def size(self) -> int:
        """Bytes of all `.log` files."""
        return sum(segment.size for segment in self._segments)

    def add(self, segment: LogSegment) -> None:
        slot = bisect_left(self._bases, segment.base_offset)
        self._bases.insert(slot, segment.base_offset)
        self._segments.insert(slot, segment)
        self.active = self._segments[-1]

    def remove(self, segment: LogSegment) -> None:
        slot = bisect_left(self._bases, segment.base_offset)
        del self._bases[slot], self._segments[slot]
        if self._segments:
            self.active = self._segments[-1]

    def replace(self, old: list[LogSegment], new: LogSegment) -> None:
        """Replace consecutive sealed segments by one with the same base offset.

        Checkpoints look at `first` from another thread: at no moment may it be a later segment.
        """
        slot = bisect_left(self._bases, new.base_offset)
        self._bases[slot : slot + len(old)] = [new.base_offset]
        self._segments[slot : slot + len(old)] = [new]

    def replace_all(self, segment: LogSegment) -> None:
        """Replace all segments by this one."""
        self._segments[:] = [segment]
        self._bases[:] = [segment.base_offset]
        self.active = segment

    def floor(self, offset: int) -> LogSegment | None:
        """The last segment whose base offset is at most `offset`."""
        slot = bisect_right(self._bases, offset) - 1
        return self._segments[slot] if slot >= 0 else None

    def higher(self, base_offset: int) -> LogSegment | None:
        """The first segment with a larger base offset."""
        slot = bisect_right(self._bases, base_offset)
        return self._segments[slot] if slot < len(self._segments) else None

    def locate(self, offset: int) -> tuple[LogSegment, int] | None:
        """Segment and position of the first batch that ends at `offset` or later; None if there is none.

        May read a few kilobytes; raises OSError.
        """
        segment = self.floor(offset) or self.first
        while True:
            found = segment.locate(offset, segment.read)
            if found is not None:
                return segment, found[0]
            higher = self.higher(segment.base_offset)
            if higher is None:
                return None
            segment = higher

    def batch_start(self, offset: int) -> int:
        """The base offset of the batch that `locate` finds; `offset` itself if there is none. Raises OSError.

        Often called for the log's start, so the last result is kept.
        """
        if self._last_lookup is not None and self._last_lookup[0] == offset:
            return self._last_lookup[1]
        found = self.locate(offset)
        if found is None:
            return offset
        segment, position = found
        base_offset = read_header(segment.read(HEADER_SIZE, position)).base_offset
        self._last_lookup = offset, base_offset
        return base_offset

    def note_truncated(self) -> None:
        """Forget the last result of `batch_start`: other batches may lie there from now on."""
        self._last_lookup = None

    def from_offset(self, offset: int) -> list[LogSegment]:
        """The segment that holds `offset`, and those after it."""
        return self._segments[max(0, bisect_right(self._bases, offset) - 1) :]
