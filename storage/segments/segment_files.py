"""The files of one segment (log, two indexes, aborted transactions): what they are called, and where they lie.

A `.log` file is opened when it is first used, and closed when the last reader lets go.
"""

from __future__ import annotations

import errno
import threading
from threading import Lock

from protocol.primitives import Buffer
from storage.files import File, FileSystem, sync_file
from storage.segments.index import OffsetIndex, TimeIndex
from storage.segments.txn_index import TXN_INDEX_SUFFIX, TxnIndex


class WouldBlockError(Exception):
    """The page cache does not hold all of the data: read it in a worker thread."""


class SegmentFile:
    """Counts the users of the descriptor, so that a delete never closes one that a worker thread is reading.

    Attributes:
        lock: held while the file is opened by name, or renamed.
        opened: the open file, None until it is used.
    """

    __slots__ = ("_closing", "_former", "_fs", "_retired", "_users", "lock", "opened", "path")

    def __init__(self, fs: FileSystem, path: str) -> None:
        self._fs = fs
        self.path = path
        self.opened: File | None = None
        self._former: tuple[File, ...] = ()  # open at earlier places, for those who still read there
        self._users = 0
        self._closing = False
        self._retired = False
        self.lock = threading.Lock()

    def open(self, *, create: bool = False) -> File:
        """The open file; it stays open until `close`."""
        if self.opened is None:
            with self.lock:
                if self.opened is None:
                    if self._retired:
                        raise FileNotFoundError(errno.ENOENT, "the log was deleted", self.path)
                    self.opened = self._fs.open(self.path, create=create)
        return self.opened

    @property
    def is_open(self) -> bool:
        return self.opened is not None

    def is_same_as(self, identity: tuple[int, int]) -> bool:
        """Whether the open file has this device and inode; true if it is not open. Any thread."""
        with self.lock:
            return self.opened is None or self.opened.identity() == identity

    def rename(self, path: str) -> None:
        """Rename the file; any thread. Raises OSError."""
        with self.lock:
            self._fs.rename(self.path, path)
            self.path = path

    def relocate(self, path: str) -> None:
        """Note that the file lies elsewhere now; the caller holds `lock`. Users go on with the one that is open."""
        if self.opened is not None:
            self._former += (self.opened,)
        self.opened, self.path = None, path
        if not self._users:
            self._close_former()

    def acquire(self) -> File:
        """The open file, which `release` must follow. Call both on the loop."""
        file = self.open()
        self._users += 1
        return file

    def release(self) -> None:
        self._users -= 1
        if self._users:
            return
        self._close_former()
        if self._closing:
            self.close()

    def _close_former(self) -> None:
        former, self._former = self._former, ()
        for file in former:
            file.close()

    def close(self) -> None:
        """Close now, or when the last user releases it; a later use opens the file again."""
        self._closing = self._users > 0
        if self.opened is not None and not self._users:
            self.opened.close()
            self.opened = None

    def retire(self) -> None:
        """Close for good: the name may soon belong to another log's file."""
        self._retired = True
        self.close()

    def read_nowait(self, size: int, position: int) -> Buffer:
        """Raises WouldBlockError instead of waiting for the device."""
        data = (self.opened or self.open()).pread_nowait(size, position)
        if data is None:
            raise WouldBlockError
        return data


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
