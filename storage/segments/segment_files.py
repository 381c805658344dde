"""The files of one segment (log, two indexes, aborted transactions): what they are called, and where they lie."""

from __future__ import annotations

from threading import Lock

from storage.files import FileSystem, sync_file
from storage.segments.index import OffsetIndex, TimeIndex
from storage.segments.segment_file import SegmentFile
from storage.segments.txn_index import TXN_INDEX_SUFFIX, TxnIndex

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
DELETED_SUFFIX = ".deleted"
CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
SEGMENT_SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)


def file_name(base_offset: int, suffix: str) -> str:
    """A segment's file name: twenty digits and the suffix."""
    return f"{base_offset:020d}{suffix}"


class SegmentFiles:
    """Four files with one base offset in their names; that of the aborted transactions exists only if there are any.

    `file_suffix` follows the names of all of them: `.cleaned`, `.swap`, `.deleted`, or nothing. An index holds at most
    `index_bytes`. Every method may raise OSError.
    """

    __slots__ = (
        "_fs",
        "_txn_index",
        "base_offset",
        "file",
        "file_suffix",
        "folder",
        "offset_index",
        "time_index",
    )

    def __init__(self, fs: FileSystem, folder: str, base_offset: int, index_bytes: int, file_suffix: str) -> None:
        self._fs = fs
        self.folder = folder
        self.base_offset = base_offset
        self.file_suffix = file_suffix
        self.file = SegmentFile(fs, self.path(LOG_SUFFIX))
        self.offset_index = OffsetIndex(fs, self.path(INDEX_SUFFIX), base_offset, index_bytes)
        self.time_index = TimeIndex(fs, self.path(TIME_INDEX_SUFFIX), base_offset, index_bytes)
        self._txn_index: TxnIndex | None = None

    def path(self, suffix: str, file_suffix: str | None = None) -> str:
        """Path of the segment's file with that suffix, followed by the segment's own `file_suffix` or another."""
        behind = self.file_suffix if file_suffix is None else file_suffix
        return f"{self.folder}/{file_name(self.base_offset, suffix)}{behind}"

    @property
    def txn_index(self) -> TxnIndex:
        """The segment's aborted transactions, read at first use. Raises CorruptTxnIndexError."""
        if self._txn_index is None:
            self._txn_index = TxnIndex(self._fs, self.folder, self.base_offset, self.file_suffix)
        return self._txn_index

    def index_paths(self) -> list[str]:
        """Paths of the index files that exist."""
        return [path for path in self.existing_files() if path != self.file.path]

    def existing_files(self) -> list[str]:
        """Paths of the segment's existing files."""
        return [path for suffix in SEGMENT_SUFFIXES if self._fs.exists(path := self.path(suffix))]

    def sync(self) -> None:
        """Put log and indexes on the device; blocking."""
        self.file.open().fdatasync()
        for path in self.index_paths():
            sync_file(self._fs, path)

    def change_suffix(self, file_suffix: str) -> None:
        """Rename the existing files, the log first: without it the others mean nothing. Any thread."""
        before = {suffix: path for suffix in SEGMENT_SUFFIXES if self._fs.exists(path := self.path(suffix))}
        after = {suffix: self.path(suffix, file_suffix) for suffix in before}
        renames = {
            LOG_SUFFIX: self.file.rename,
            INDEX_SUFFIX: self.offset_index.rename,
            TIME_INDEX_SUFFIX: self.time_index.rename,
        }
        for suffix, old in before.items():
            if suffix in renames:
                renames[suffix](after[suffix])
            else:
                self._fs.rename(old, after[suffix])
        self.file_suffix = file_suffix  # last, so that a call that failed half-way can be repeated
        if self._txn_index is not None:
            self._txn_index.path = self.path(TXN_INDEX_SUFFIX)

    def locks(self) -> tuple[Lock, ...]:
        """The locks that other threads hold, one at a time, while they open files by name."""
        return self.file.lock, self.offset_index.lock, self.time_index.lock

    def relocate(self, folder: str) -> None:
        """Note the files' new folder; the caller holds `locks`."""
        self.folder = folder
        self.offset_index.relocate(self.path(INDEX_SUFFIX))
        self.time_index.relocate(self.path(TIME_INDEX_SUFFIX))
        if self._txn_index is not None:
            self._txn_index.path = self.path(TXN_INDEX_SUFFIX)
        self.file.relocate(self.path(LOG_SUFFIX))
