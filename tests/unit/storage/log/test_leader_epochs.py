"""Leader epochs: the file, OffsetForLeaderEpoch, truncations."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.checkpoint_file import CorruptCheckpointError
from storage.log.leader_epochs import FILE_NAME, LeaderEpochs
from tests.doubles.files import Fault, MemoryFileSystem

FOLDER = "/data/t-0"


def epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    fs = MemoryFileSystem()
    fs.mkdir(FOLDER)
    found = LeaderEpochs(fs, FOLDER)
    for epoch, offset in entries:
        found.assign(epoch, offset)
    return found


def with_file(content: bytes) -> MemoryFileSystem:
    fs = MemoryFileSystem()
    fs.mkdir(FOLDER)
    fs.open(f"{FOLDER}/{FILE_NAME}", create=True).pwrite(content, 0)
    return fs


def test_the_file_is_kafkas() -> None:
    fs = MemoryFileSystem()
    fs.mkdir(FOLDER)
    written = LeaderEpochs(fs, FOLDER)
    written.assign(0, 0)
    written.assign(3, 17)
    file = fs.open(f"{FOLDER}/{FILE_NAME}")
    assert file.pread(file.size(), 0) == b"0\n2\n0 0\n3 17\n"
    assert LeaderEpochs(fs, FOLDER).entries == written.entries


@pytest.mark.parametrize("content", [b"0\n", b"0\n2\n0 0\n", b"1\n0\n", b"0\n1\nx y\n", b"0\n1\n1 2 3\n", b"\xff"])
def test_a_damaged_file_is_noticed(content: bytes) -> None:
    with pytest.raises(CorruptCheckpointError):
        LeaderEpochs(with_file(content), FOLDER)


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [(-1, (-1, -1)), (0, (0, 10)), (2, (2, 20)), (3, (2, 20)), (5, (5, 30)), (6, (5, 30)), (7, (7, 99)), (8, (-1, -1))],
)
def test_end_offset_for(epoch: int, expected: tuple[int, int]) -> None:
    assert epochs((2, 10), (5, 20), (7, 30)).end_offset_for(epoch, 99) == expected


def test_nothing_is_known_without_entries() -> None:
    assert epochs().end_offset_for(0, 5) == (-1, -1)
    assert epochs().latest == -1


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        ((7, 40), ((2, 10), (5, 20), (7, 30))),
        ((7, 25), ((2, 10), (5, 20), (7, 25))),
        ((8, 30), ((2, 10), (5, 20), (8, 30))),
        ((8, 15), ((2, 10), (8, 15))),
        ((4, 50), ((2, 10), (4, 50))),
        ((1, 5), ((1, 5),)),
    ],
)
def test_assign_removes_what_it_contradicts(new: tuple[int, int], expected: tuple[tuple[int, int], ...]) -> None:
    found = epochs((2, 10), (5, 20), (7, 30))
    found.assign(*new)
    assert found.entries == expected


@pytest.mark.parametrize("entry", [(-1, 0), (0, -1)])
def test_negative_entries_are_refused(entry: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="cannot start"):
        epochs().assign(*entry)


@pytest.mark.parametrize(("end", "expected"), [(31, 3), (30, 2), (21, 2), (20, 1), (10, 0), (0, 0), (-1, 3)])
def test_truncate_from_end(end: int, expected: int) -> None:
    found = epochs((2, 10), (5, 20), (7, 30))
    before = found.entries
    found.truncate_from_end(end)
    assert found.entries == before[:expected]


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (5, ((2, 10), (5, 20), (7, 30))),
        (10, ((2, 10), (5, 20), (7, 30))),
        (15, ((2, 15), (5, 20), (7, 30))),
        (20, ((5, 20), (7, 30))),
        (99, ((7, 99),)),
    ],
)
def test_truncate_from_start(start: int, expected: tuple[tuple[int, int], ...]) -> None:
    found = epochs((2, 10), (5, 20), (7, 30))
    before = found.entries
    assert found.truncate_from_start(start) is (before != expected)
    assert found.entries == expected


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 12)), max_size=12), st.integers(0, 12))
def test_entries_always_ascend(assigned: list[tuple[int, int]], offset: int) -> None:
    found = epochs(*assigned)
    entries = found.entries
    assert all(a.epoch < b.epoch and a.start_offset < b.start_offset for a, b in pairwise(entries))
    expected = [entry.epoch for entry in entries if entry.start_offset <= offset]
    assert found.epoch_for(offset) == (expected[-1] if expected else -1)


def test_an_epoch_that_begins_is_written_once_it_has_records() -> None:
    fs = MemoryFileSystem()
    fs.mkdir(FOLDER)
    known = LeaderEpochs(fs, FOLDER)
    known.assign(0, 0)
    known.begin(2, 5)
    assert known.entries == ((0, 0), (2, 5))
    assert not known.is_unsaved(5)
    assert known.is_unsaved(6)
    assert LeaderEpochs(fs, FOLDER).entries == ((0, 0),)
    known.save()
    assert not known.is_unsaved(6)
    assert LeaderEpochs(fs, FOLDER).entries == known.entries
    known.begin(2, 7)
    assert not known.is_unsaved(8)


def test_an_epoch_that_begins_while_the_file_is_written_is_still_unsaved() -> None:
    fs = MemoryFileSystem()
    fs.mkdir(FOLDER)
    known = LeaderEpochs(fs, FOLDER)
    known.begin(0, 0)
    fs.hook = lambda operation, _: known.begin(1, 5) if operation == "rename" else None
    known.save()
    assert LeaderEpochs(fs, FOLDER).entries == ((0, 0),)
    assert known.is_unsaved(6)


def test_epochs_that_could_not_be_written_are_still_unsaved() -> None:
    fs = MemoryFileSystem()
    fs.mkdir(FOLDER)
    known = LeaderEpochs(fs, FOLDER)
    known.begin(0, 0)
    fs.inject(Fault("rename", 1))
    with pytest.raises(OSError):
        known.save()
    assert known.is_unsaved(1)
