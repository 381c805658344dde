"""The files of a segment in remote storage: in a folder (a share that driver and executors see), or in a bucket of S3.

How a log on S3 is read: what is small (a header, a piece of an index) by a range of its own; a scan in chunks, of which
the next one is loaded while the last one is decoded. So a reader holds three chunks at most, whatever the log's size.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from odradek_pipeline.datasource.errors import CorruptLogError, DataSourceError, StoreUnavailableError
from odradek_pipeline.datasource.places import LocalLog, OpenLog, RemoteFileMissing
from odradek_pipeline.protocol.remote_storage.s3 import S3Settings, S3Store, open_s3
from odradek_pipeline.protocol.remote_storage.segment import RemoteSegment, State
from odradek_pipeline.protocol.remote_storage.store import (
    IndexKind,
    RemoteChunkDamagedError,
    RemoteObjectDamagedError,
    RemoteObjectMissingError,
    RemoteStoreError,
)

T = TypeVar("T")

CHUNK_BYTES = 4 << 20
SMALL_BYTES = 256 << 10
_MASK = (1 << 64) - 1


@lru_cache(maxsize=16)
def bucket_of(settings: S3Settings) -> S3Store:
    """The store of a bucket, once for each process. Raises DataSourceError without obstore."""
    try:
        return open_s3(settings)
    except ModuleNotFoundError as error:
        raise DataSourceError(
            f"S3 needs {error.name}, which is not installed: pip install 'odradek-pipeline[s3]'"
        ) from error


def asked(what: str, work: Callable[[], T]) -> T:
    """The result of `work`. Raises RemoteFileMissing, or DataSourceError or a subclass, which names `what`."""
    try:
        return work()
    except RemoteObjectMissingError as error:
        raise RemoteFileMissing(2, "missing in remote storage", what) from error
    except RemoteChunkDamagedError as error:
        raise CorruptLogError(f"{what} is damaged: {error}") from error
    except RemoteObjectDamagedError as error:
        raise DataSourceError(f"{what} cannot be read: {error}") from error
    except RemoteStoreError as error:
        raise StoreUnavailableError(f"{what} cannot be read: {error}") from error


@dataclass(frozen=True, slots=True)
class FolderFile:
    """A file of a segment in a folder."""

    path: str

    def __str__(self) -> str:
        return self.path

    def open(self) -> OpenLog:
        try:
            return LocalLog.opened(self.path)
        except FileNotFoundError as error:
            raise RemoteFileMissing(2, "missing in remote storage", self.path) from error

    def content(self) -> bytes:
        try:
            return Path(self.path).read_bytes()
        except FileNotFoundError as error:
            raise RemoteFileMissing(2, "missing in remote storage", self.path) from error


@dataclass(frozen=True, slots=True)
class S3Index:
    """An index of a segment on S3."""

    settings: S3Settings
    segment: RemoteSegment
    kind: IndexKind

    def __str__(self) -> str:
        return f"{self.kind.value} index of {S3Log(self.settings, self.segment)}"

    def open(self) -> OpenLog:
        raise DataSourceError(f"{self} is no log")

    def content(self) -> bytes:
        store = bucket_of(self.settings)
        return asked(str(self), lambda: store.index(self.segment, self.kind))


@dataclass(frozen=True, slots=True)
class S3Log:
    """The log of a segment on S3."""

    settings: S3Settings
    segment: RemoteSegment

    def __str__(self) -> str:
        return f"s3://{self.settings.bucket}/{bucket_of(self.settings).names(self.segment)[0]}"

    def open(self) -> OpenLog:
        return OpenS3Log(str(self), self.segment, bucket_of(self.settings))

    def content(self) -> bytes:
        return asked(str(self), lambda: bucket_of(self.settings).read(self.segment, 0, self.segment.size))


class OpenS3Log:
    """See the module. Not for several threads. Opening asks nothing of the store.

    A segment whose copy was never finished has no manifest; what there is of it is read as it is.
    """

    def __init__(self, path: str, segment: RemoteSegment, store: S3Store) -> None:
        self.path = path
        self.identity = segment.id.int >> 64, segment.id.int & _MASK
        self.size = segment.size
        self._segment = segment
        self._plain = segment.state is State.COPY_STARTED
        self._store = store
        self._chunk: tuple[int, bytes] = (-1, b"")
        self._ahead: tuple[int, Future[bytes]] | None = None
        self._thread: ThreadPoolExecutor | None = None

    def read(self, size: int, position: int) -> bytes:
        size = min(size, self.size - position)
        if size <= 0:
            return b""
        number, at = divmod(position, CHUNK_BYTES)
        if size < SMALL_BYTES and number != self._chunk[0]:
            return self._load(position, size)
        found = self._chunk_at(number)[at : at + size]
        while len(found) < size and (number + 1) * CHUNK_BYTES < self.size:
            number += 1
            found += self._chunk_at(number)[: size - len(found)]
        return found

    def _chunk_at(self, number: int) -> bytes:
        if self._chunk[0] == number:
            return self._chunk[1]
        if self._ahead is not None and self._ahead[0] == number:
            data = self._ahead[1].result()
        else:
            data = self._load(number * CHUNK_BYTES, CHUNK_BYTES)
        self._chunk, self._ahead = (number, data), None
        following = (number + 1) * CHUNK_BYTES
        if following < self.size:
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, thread_name_prefix="read-ahead")
            self._ahead = number + 1, self._thread.submit(self._load, following, CHUNK_BYTES)
        return data

    def _load(self, position: int, size: int) -> bytes:
        try:
            read = self._store.read_plain if self._plain else self._store.read
            return asked(self.path, lambda: read(self._segment, position, size))
        except StoreUnavailableError:
            if asked(self.path, lambda: self._store.is_cut(self._segment, plain=self._plain)):
                return b""
            raise

    def next_data(self, position: int) -> int:
        return position

    def close(self) -> None:
        self._ahead = None
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)
