"""A segment's aborted transactions, `NNNN.txnindex`: entries of 34 bytes (Kafka's TransactionIndex and AbortedTxn)."""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterable
from operator import attrgetter
from typing import NamedTuple

from storage.files import FileSystem, read_file, write_fully

TXN_INDEX_SUFFIX = ".txnindex"

_ENTRY = struct.Struct(">hqqqq")
_VERSION = 0
_LAST_OFFSET = attrgetter("last_offset")


class AbortedTxn(NamedTuple):
    """An aborted transaction: its first offset, its marker's offset, and the last stable offset after its end."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class CorruptTxnIndexError(ValueError):
    """The file is no valid transaction index; rebuild it from the segment."""


class TxnIndex:
    """The transaction index of the segment at `base_offset`. Its file exists only once there is an entry."""

    def __init__(self, fs: FileSystem, folder: str, base_offset: int, file_suffix: str = "") -> None:
        """Read the file, if there is one. Raises OSError and CorruptTxnIndexError."""
        self._fs = fs
        self.path = f"{folder}/{base_offset:020d}{TXN_INDEX_SUFFIX}{file_suffix}"
        self._entries: list[AbortedTxn] = []
        if fs.exists(self.path):
            self._entries = decode_aborted(read_file(fs, self.path), base_offset)
        self._written = len(self._entries)

    @property
    def entries(self) -> tuple[AbortedTxn, ...]:
        """All entries, in order of their markers."""
        return tuple(self._entries)

    def append(self, txn: AbortedTxn) -> None:
        """Add and write an entry. Raises ValueError unless markers ascend; after OSError only the file lacks it."""
        if self._entries and txn.last_offset <= self._entries[-1].last_offset:
            raise ValueError(f"{txn} does not come after {self._entries[-1]}")
        self._entries.append(txn)
        self.write_out()

    def write_out(self) -> None:
        """Bring the file up to date (page cache only). Raises OSError."""
        missing = self._entries[self._written :]
        if not missing:
            return
        file = self._fs.open(self.path, create=True)
        try:
            data = b"".join(_ENTRY.pack(_VERSION, *txn) for txn in missing)
            write_fully(file, data, self._written * _ENTRY.size)
        finally:
            file.close()
        self._written = len(self._entries)

    def collect(self, fetch_offset: int, upper_bound_offset: int) -> tuple[list[AbortedTxn], bool]:
        """The transactions touching [fetch_offset, upper_bound_offset), and whether no later segment can hold more."""
        entries = self._entries
        found = []
        for at in range(bisect_left(entries, fetch_offset, key=_LAST_OFFSET), len(entries)):
            txn = entries[at]
            if txn.first_offset < upper_bound_offset:
                found.append(txn)
            if txn.last_stable_offset >= upper_bound_offset:
                return found, True
        return found, False

    def truncate_to(self, offset: int) -> None:
        """Remove transactions whose marker is at or after `offset`. Raises OSError."""
        kept = [txn for txn in self._entries if txn.last_offset < offset]
        if len(kept) == len(self._entries):
            return
        file = self._fs.open(self.path, create=True)
        try:
            file.truncate(len(kept) * _ENTRY.size)
        finally:
            file.close()
        self._entries = kept
        self._written = min(self._written, len(kept))


def collect_aborted(indexes: Iterable[TxnIndex], fetch_offset: int, upper_bound_offset: int) -> list[AbortedTxn]:
    """The aborted transactions that a read-committed fetch of [fetch_offset, upper_bound_offset) must return.

    `indexes` are those of the segments from the one that holds `fetch_offset` on, in order.
    """
    found: list[AbortedTxn] = []
    for index in indexes:
        part, complete = index.collect(fetch_offset, upper_bound_offset)
        found += part
        if complete:
            break
    return found


def decode_aborted(data: bytes, base_offset: int) -> list[AbortedTxn]:
    """The entries of the index of the segment at `base_offset`. Raises CorruptTxnIndexError."""
    if len(data) % _ENTRY.size:
        raise CorruptTxnIndexError("the last entry is cut short")
    entries = []
    for version, *fields in _ENTRY.iter_unpack(data):
        entry = AbortedTxn._make(fields)
        if version != _VERSION or entry.last_offset < base_offset:
            raise CorruptTxnIndexError(f"impossible entry {entry} of version {version}")
        entries.append(entry)
    return entries
