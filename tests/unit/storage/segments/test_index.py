"""The two indexes: Kafka's bytes, lookups, truncation, what counts as corrupt."""

from __future__ import annotations

import pytest

from storage.files import read_file, write_file_atomically
from storage.segments.index import CorruptIndexError, OffsetIndex, TimeIndex, TimestampOffset
from tests.doubles.files import MemoryFileSystem

BASE = 1 << 33


def offset_index(fs: MemoryFileSystem, *entries: tuple[int, int]) -> OffsetIndex:
    index = OffsetIndex(fs, "/i", BASE, 80)
    index.reset()
    for offset, position in entries:
        index.append(BASE + offset, position)
    index.write_out()
    return index


def time_index(fs: MemoryFileSystem, *entries: tuple[int, int]) -> TimeIndex:
    index = TimeIndex(fs, "/t", BASE, 120)
    index.reset()
    for timestamp, offset in entries:
        index.maybe_append(timestamp, BASE + offset)
    index.write_out()
    return index


def test_offset_entries_are_relative_and_big_endian(fs: MemoryFileSystem) -> None:
    offset_index(fs, (1, 0x0203), (258, 0x04050607))
    assert read_file(fs, "/i") == bytes.fromhex("00000001 00000203 00000102 04050607")


def test_time_entries_are_relative_and_big_endian(fs: MemoryFileSystem) -> None:
    time_index(fs, (0x0102030405060708, 9))
    assert read_file(fs, "/t") == bytes.fromhex("0102030405060708 00000009")


def test_offset_lookup_finds_the_last_entry_not_above(fs: MemoryFileSystem) -> None:
    offset_index(fs, (10, 100), (20, 200))
    loaded = OffsetIndex(fs, "/i", BASE, 80)
    assert not loaded.is_loaded
    assert loaded.last_position() == 200
    assert not loaded.is_loaded
    found = [loaded.lookup(BASE + offset) for offset in (0, 9, 10, 19, 20, 99)]
    assert found == [0, 0, 100, 100, 200, 200]
    assert [loaded.upper_bound(position) for position in (0, 101, 200, 201)] == [BASE + 10, BASE + 20, BASE + 20, None]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 1024, 1025, 1026, 3000])
def test_the_upper_bound_passes_over_an_exact_match_that_kafkas_search_does_not_compare(
    fs: MemoryFileSystem, count: int
) -> None:
    index = OffsetIndex(fs, "/o", BASE, 8 * count)
    index.reset()
    for number in range(count):
        index.append(BASE + number, 10 * number)
    for number in {*range(min(count, 40)), *range(max(0, count - 1030), max(0, count - 1020)), count - 1}:
        expected = kafkas_upper_bound(count, number)
        assert index.upper_bound(10 * number) == (None if expected is None else BASE + expected), number


def kafkas_upper_bound(entries: int, target: int) -> int | None:
    """The slot that AbstractIndex.indexSlotRangeFor answers in an index whose entries are their slots' numbers."""
    warm = max(0, entries - 1 - 1024)
    low, high = (warm, entries - 1) if warm < target else (0, warm)
    while low < high:
        middle = (low + high + 1) >> 1
        if middle == target:
            return middle
        if middle > target:
            high = middle - 1
        else:
            low = middle
    return None if low == entries - 1 else low + 1


def test_time_lookup_finds_the_last_entry_not_after(fs: MemoryFileSystem) -> None:
    time_index(fs, (1000, 1), (2000, 5))
    loaded = TimeIndex(fs, "/t", BASE, 120)
    assert loaded.last_entry() == TimestampOffset(2000, BASE + 5)
    assert loaded.lookup(999) == TimestampOffset(-1, BASE)
    assert loaded.lookup(1000) == loaded.lookup(1999) == TimestampOffset(1000, BASE + 1)
    assert loaded.lookup(9999) == TimestampOffset(2000, BASE + 5)


def test_the_time_index_takes_only_rising_timestamps(fs: MemoryFileSystem) -> None:
    index = time_index(fs, (1000, 1), (1000, 2), (999, 3), (1001, 4))
    assert index.entries() == [(1000, BASE + 1), (1001, BASE + 4)]


def test_truncation_drops_entries_in_memory_and_on_disk(fs: MemoryFileSystem) -> None:
    offsets = offset_index(fs, (10, 100), (20, 200), (30, 300))
    times = time_index(fs, (1000, 10), (2000, 20))
    offsets.truncate_to(BASE + 20)
    times.truncate_to(BASE + 20)
    assert (fs.size("/i"), fs.size("/t")) == (8, 12)
    offsets.append(BASE + 25, 210)
    offsets.write_out()
    assert OffsetIndex(fs, "/i", BASE, 80).entries() == [(BASE + 10, 100), (BASE + 25, 210)]


def test_fullness_leaves_a_slot_in_the_time_index(fs: MemoryFileSystem) -> None:
    offsets = offset_index(fs, *((n, n) for n in range(1, 10)))
    times = time_index(fs, *((n, n) for n in range(1, 9)))
    assert not offsets.is_full()
    assert not times.is_full()
    offsets.append(BASE + 10, 10)
    times.maybe_append(9, BASE + 9)
    assert offsets.is_full()
    assert times.is_full()


@pytest.mark.parametrize("content", ["00000001 000000", "00000002 00000000 00000001 00000009", "00000001 00000050"])
def test_a_corrupt_offset_index_is_noticed(fs: MemoryFileSystem, content: str) -> None:
    write_file_atomically(fs, "/i", bytes.fromhex(content))
    with pytest.raises(CorruptIndexError):
        OffsetIndex(fs, "/i", BASE, 80).sanity_check(log_size=0x50)


@pytest.mark.parametrize("entries", ["0000000000000002 00000001 0000000000000001 00000002", "0000000000000002 00"])
def test_a_corrupt_time_index_is_noticed(fs: MemoryFileSystem, entries: str) -> None:
    write_file_atomically(fs, "/t", bytes.fromhex(entries))
    with pytest.raises(CorruptIndexError):
        TimeIndex(fs, "/t", BASE, 120).sanity_check()
