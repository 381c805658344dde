"""Files that the source reads: on a disk by their path, or in remote storage.

A log is opened, and read by position; what lies beside it is read whole.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from odradek_pipeline.datasource.errors import CorruptLogError

BLOCK_BYTES = 1 << 20


class OpenLog(Protocol):
    """An open log; its content stays readable whatever happens to its name.

    Attributes:
        path: its name, which begins with the offset of its first record.
        identity: distinguishes it from another file of that name.
        size: bytes when it was opened.
    """

    @property
    def path(self) -> str: ...

    @property
    def identity(self) -> tuple[int, int]: ...

    @property
    def size(self) -> int: ...

    def read(self, size: int, position: int) -> bytes:
        """Up to `size` bytes, fewer at the log's end. Raises OSError, DataSourceError."""
        ...

    def next_data(self, position: int) -> int:
        """The first position from here on that was ever written to; the size if there is none."""
        ...

    def close(self) -> None: ...


class RemoteFileMissing(FileNotFoundError):  # noqa: N818  # as its base class
    """A file that was in remote storage a moment ago is not there; `filename` says which."""


class StoredFile(Protocol):
    """A file in remote storage, which does not change. Its text is its name for people; it can be pickled."""

    def open(self) -> OpenLog:
        """Raises RemoteFileMissing, OSError, DataSourceError."""
        ...

    def content(self) -> bytes:
        """All of it. Raises as `open` does."""
        ...


Place: TypeAlias = str | StoredFile
"""A path on this machine, or a file in remote storage."""


@dataclass(frozen=True, slots=True)
class LocalLog:
    """An open file."""

    path: str
    descriptor: int
    identity: tuple[int, int]
    size: int

    @classmethod
    def opened(cls, path: str) -> LocalLog:
        """Raises OSError."""
        descriptor = os.open(path, os.O_RDONLY)
        found = os.fstat(descriptor)
        return cls(path, descriptor, (found.st_dev, found.st_ino), found.st_size)

    def read(self, size: int, position: int) -> bytes:
        return os.pread(self.descriptor, size, position)

    def next_data(self, position: int) -> int:
        """What was only allocated (Kafka's `log.preallocate`) is passed over by the file system."""
        try:
            return min(os.lseek(self.descriptor, position, os.SEEK_DATA), self.size)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            return self.size

    def close(self) -> None:
        os.close(self.descriptor)


class ScannedLog:
    """A log that is gone through from its beginning: what is read of it is mostly in the last block.

    Where a part of it is damaged, there are zeros, so that a search for the next batch goes on behind it.
    """

    def __init__(self, log: OpenLog) -> None:
        self._log = log
        self.path, self.identity, self.size = log.path, log.identity, log.size
        self._block = b""
        self._at = 0

    def read(self, size: int, position: int) -> bytes:
        end = min(position + size, self.size)
        if not self._at <= position <= end <= self._at + len(self._block):
            self._block, self._at = self._load(max(size, BLOCK_BYTES), position), position
        return self._block[position - self._at : end - self._at]

    def _load(self, size: int, position: int) -> bytes:
        try:
            return self._log.read(size, position)
        except CorruptLogError:
            return bytes(max(min(size, self.size - position), 0))

    def next_data(self, position: int) -> int:
        return self._log.next_data(position)

    def close(self) -> None:
        self._log.close()


@contextmanager
def open_log(place: Place) -> Iterator[OpenLog]:
    """Open a log for reading. Raises OSError, DataSourceError."""
    log: OpenLog = LocalLog.opened(place) if isinstance(place, str) else place.open()
    try:
        yield log
    finally:
        log.close()
