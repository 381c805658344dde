"""A segment's `.log` file: opened when first used, closed when the last reader lets go."""

from __future__ import annotations

import errno
import threading

from protocol.primitives import Buffer
from storage.files import File, FileSystem


class WouldBlockError(Exception):
    """The page cache does not hold all of the data: read it in a worker thread."""


class SegmentFile:
    """Counts the users of the descriptor, so that a delete never closes one that a worker thread is reading.

    Attributes:
        lock: held while the file is opened by name, or renamed.
    """

    __slots__ = ("_closing", "_file", "_former", "_fs", "_retired", "_users", "lock", "path")

    def __init__(self, fs: FileSystem, path: str) -> None:
        self._fs = fs
        self.path = path
        self._file: File | None = None
        self._former: tuple[File, ...] = ()  # open at earlier places, for those who still read there
        self._users = 0
        self._closing = False
        self._retired = False
        self.lock = threading.Lock()

    def open(self, *, create: bool = False) -> File:
        """The open file; it stays open until `close`."""
        if self._file is None:
            with self.lock:
                if self._file is None:
                    if self._retired:
                        raise FileNotFoundError(errno.ENOENT, "the log was deleted", self.path)
                    self._file = self._fs.open(self.path, create=create)
        return self._file

    @property
    def is_open(self) -> bool:
        return self._file is not None

    def is_same_as(self, identity: tuple[int, int]) -> bool:
        """Whether the open file has this device and inode; true if it is not open. Any thread."""
        with self.lock:
            return self._file is None or self._file.identity() == identity

    def rename(self, path: str) -> None:
        """Rename the file; any thread. Raises OSError."""
        with self.lock:
            self._fs.rename(self.path, path)
            self.path = path

    def relocate(self, path: str) -> None:
        """Note that the file lies elsewhere now; the caller holds `lock`. Users go on with the one that is open."""
        if self._file is not None:
            self._former += (self._file,)
        self._file, self.path = None, path
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
        if self._file is not None and not self._users:
            self._file.close()
            self._file = None

    def retire(self) -> None:
        """Close for good: the name may soon belong to another log's file."""
        self._retired = True
        self.close()

    def read_nowait(self, size: int, position: int) -> Buffer:
        """Raises WouldBlockError instead of waiting for the device."""
        data = (self._file or self.open()).pread_nowait(size, position)
        if data is None:
            raise WouldBlockError
        return data
