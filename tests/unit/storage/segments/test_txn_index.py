"""The transaction index's file: growing, truncating, and what damage looks like."""

from __future__ import annotations

import pytest

from storage.segments.txn_index import AbortedTxn, CorruptTxnIndexError, TxnIndex
from tests.doubles.files import MemoryFileSystem

FOLDER = "/data/t-0"
TXNS = [AbortedTxn(1, 100, 105, 103), AbortedTxn(2, 103, 110, 111), AbortedTxn(1, 111, 120, 121)]


@pytest.fixture
def fs() -> MemoryFileSystem:
    fs = MemoryFileSystem()
    fs.mkdir(FOLDER)
    return fs


@pytest.fixture
def index(fs: MemoryFileSystem) -> TxnIndex:
    index = TxnIndex(fs, FOLDER, 100)
    for txn in TXNS:
        index.append(txn)
    return index


def test_no_file_without_entries(fs: MemoryFileSystem) -> None:
    index = TxnIndex(fs, FOLDER, 100)
    index.truncate_to(0)
    assert fs.listdir(FOLDER) == []


def test_entries_are_of_34_bytes(fs: MemoryFileSystem, index: TxnIndex) -> None:
    assert fs.size(index.path) == 3 * 34
    assert TxnIndex(fs, FOLDER, 100).entries == tuple(TXNS)


def test_markers_must_ascend(index: TxnIndex) -> None:
    with pytest.raises(ValueError, match="does not come after"):
        index.append(AbortedTxn(3, 90, 120, 121))
    assert index.entries == tuple(TXNS)


@pytest.mark.parametrize(("offset", "left"), [(121, 3), (120, 2), (111, 2), (110, 1), (105, 0), (0, 0)])
def test_truncate(fs: MemoryFileSystem, index: TxnIndex, offset: int, left: int) -> None:
    index.truncate_to(offset)
    assert index.entries == TxnIndex(fs, FOLDER, 100).entries == tuple(TXNS[:left])


@pytest.mark.parametrize(
    ("fetch", "upper", "found", "complete"),
    [
        (100, 103, TXNS[:1], True),
        (100, 104, TXNS[:2], True),
        (105, 111, TXNS[:2], True),
        (106, 111, TXNS[1:2], True),
        (111, 200, TXNS[2:], False),
        (121, 200, [], False),
        (0, 200, TXNS, False),
    ],
)
def test_collect(index: TxnIndex, fetch: int, upper: int, found: list[AbortedTxn], complete: bool) -> None:
    assert index.collect(fetch, upper) == (found, complete)


def test_damage_is_noticed(fs: MemoryFileSystem, index: TxnIndex) -> None:
    file = fs.open(index.path)
    file.truncate(50)
    with pytest.raises(CorruptTxnIndexError):
        TxnIndex(fs, FOLDER, 100)
    file.truncate(34)
    fs.open(f"{FOLDER}/{106:020d}.txnindex", create=True).pwrite(file.pread(34, 0), 0)
    with pytest.raises(CorruptTxnIndexError):
        TxnIndex(fs, FOLDER, 106)
    file.pwrite(b"\0\x01", 0)
    with pytest.raises(CorruptTxnIndexError):
        TxnIndex(fs, FOLDER, 100)
