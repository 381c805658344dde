"""Which neighbouring segments compaction makes one of (Kafka's Cleaner.groupSegmentsBySize)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from storage.cleaner.selection import group_by_size
from storage.segments.index import MAX_RELATIVE_OFFSET
from tests.doubles.files import MemoryFileSystem


@dataclass
class Index:
    path: str


class Segment:
    """As much of a segment as the grouping looks at."""

    def __init__(self, fs: MemoryFileSystem, base_offset: int, size: int, offset_index: int, time_index: int) -> None:
        self.base_offset = base_offset
        self.size = size
        self.offset_index = Index(f"{base_offset}.index")
        self.time_index = Index(f"{base_offset}.timeindex")
        for index, length in ((self.offset_index, offset_index), (self.time_index, time_index)):
            fs.open(index.path, create=True).pwrite(b"\0" * length, 0)


def grouped(
    *segments: tuple[int, int, int, int], end: int = 1000, max_bytes: int = 1000, max_index_bytes: int = 1000
) -> list[list[int]]:
    """The base offsets of each group, of segments given as (base offset, bytes, bytes of either index)."""
    fs = MemoryFileSystem()
    every: list[Any] = [Segment(fs, *one) for one in segments]
    steps = group_by_size(fs, every, max_bytes, max_index_bytes, end)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return [[segment.base_offset for segment in group] for group in done.value]


def test_a_group_is_no_larger_than_a_segment_may_be() -> None:
    three = ((0, 100, 0, 0), (10, 100, 0, 0), (20, 100, 0, 0))
    assert grouped(*three, max_bytes=300) == [[0, 10, 20]]
    assert grouped(*three, max_bytes=299) == [[0, 10], [20]]
    assert grouped(*three, max_bytes=200) == [[0, 10], [20]]
    assert grouped(*three, max_bytes=199) == [[0], [10], [20]]


def test_a_segment_larger_than_the_limit_is_a_group_of_its_own() -> None:
    assert grouped((0, 500, 0, 0), (10, 500, 0, 0), max_bytes=100) == [[0], [10]]


def test_neither_index_of_a_group_is_larger_than_it_may_be() -> None:
    assert grouped((0, 1, 8, 60), (10, 1, 8, 40), max_index_bytes=100) == [[0, 10]]
    assert grouped((0, 1, 8, 60), (10, 1, 8, 41), max_index_bytes=100) == [[0], [10]]
    assert grouped((0, 1, 60, 12), (10, 1, 41, 12), max_index_bytes=100) == [[0], [10]]


def test_every_offset_of_a_group_can_be_told_from_its_first_one() -> None:
    last = MAX_RELATIVE_OFFSET
    assert grouped((0, 1, 0, 0), (10, 1, 0, 0), (last + 1, 1, 0, 0), end=last + 5) == [[0, 10], [last + 1]]
    assert grouped((0, 1, 0, 0), (10, 1, 0, 0), (last + 2, 1, 0, 0), end=last + 5) == [[0], [10, last + 2]]
    assert grouped((0, 1, 0, 0), (10, 1, 0, 0), end=last + 1) == [[0, 10]]
    assert grouped((0, 1, 0, 0), (10, 1, 0, 0), end=last + 2) == [[0], [10]]


def test_a_segment_without_records_fits_however_far_it_reaches() -> None:
    assert grouped((0, 1, 0, 0), (10, 0, 0, 0), end=MAX_RELATIVE_OFFSET + 2) == [[0, 10]]
