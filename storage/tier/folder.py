"""Remote storage in a folder, on a disk or a share, in the layout of Kafka's `LocalTieredStorage`.

A copy is synced, with its names, before it counts.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from protocol.remote_storage.folder_layout import (
    LOG_SUFFIX,
    ROOT,
    SUFFIXES,
    file_of,
    folder_of,
    parse_file,
    parse_folder,
)
from protocol.remote_storage.segment import RemoteSegment
from protocol.remote_storage.store import (
    IndexKind,
    RemoteObjectMissingError,
    RemoteStoreError,
    SegmentData,
    StoredObject,
)
from storage.files import FileSystem, read_file, write_fully


class FolderStore:
    """The folder `directory`; missing parts of it are made."""

    def __init__(self, fs: FileSystem, directory: str) -> None:
        self._fs = fs
        self._directory = directory
        self._root = f"{directory}/{ROOT}"
        self._safe: set[str] = set()
        """Folders of partitions whose names a power failure cannot take any more."""

    def check(self) -> None:
        try:
            is_new = not self._fs.exists(self._root)
            self._fs.mkdir(self._root)
            folder = os.path.abspath(self._root)
            while is_new and folder != "/":
                folder = os.path.dirname(folder)
                self._fs.fsync_dir(folder)
        except OSError as error:
            raise RemoteStoreError(f"{self._directory} cannot be used as remote storage: {error}") from error

    def copy(self, segment: RemoteSegment, data: SegmentData) -> bytes | None:
        folder = self._folder(segment)
        try:
            if folder not in self._safe:
                self._fs.mkdir(folder)
                self._fs.fsync_dir(self._root)
                self._safe.add(folder)
            for kind, content in data.indexes.items():
                self._write(self._path(segment, SUFFIXES[kind]), iter((content,)))
            self._write(self._path(segment, LOG_SUFFIX), data.chunks())
            self._fs.fsync_dir(folder)
        except OSError as error:
            raise RemoteStoreError(f"{folder}: {error}") from error
        return None

    def _write(self, path: str, pieces: Iterator[bytes]) -> None:
        file = self._fs.open(path, create=True)
        try:
            file.truncate(0)
            position = 0
            for piece in pieces:
                write_fully(file, piece, position)
                position += len(piece)
            file.fdatasync()
        finally:
            file.close()

    def read(self, segment: RemoteSegment, position: int, size: int) -> bytes:
        path = self._path(segment, LOG_SUFFIX)
        try:
            file = self._fs.open_to_read(path)
            try:
                return file.pread(size, position)
            finally:
                file.close()
        except FileNotFoundError as error:
            raise RemoteObjectMissingError(f"{path} is missing") from error
        except OSError as error:
            raise RemoteStoreError(f"{path}: {error}") from error

    def index(self, segment: RemoteSegment, kind: IndexKind) -> bytes:
        path = self._path(segment, SUFFIXES[kind])
        try:
            return read_file(self._fs, path)
        except FileNotFoundError as error:
            raise RemoteObjectMissingError(f"{path} is missing") from error
        except OSError as error:
            raise RemoteStoreError(f"{path}: {error}") from error

    def delete(self, segment: RemoteSegment) -> None:
        folder = self._folder(segment)
        try:
            if not self._fs.exists(folder):
                return
            for suffix in (LOG_SUFFIX, *SUFFIXES.values()):
                with contextlib.suppress(FileNotFoundError):
                    self._fs.unlink(self._path(segment, suffix))
            self._fs.fsync_dir(folder)
            if not self._fs.listdir(folder):
                self._safe.discard(folder)
                with contextlib.suppress(OSError):  # another copy may have come
                    self._fs.rmdir(folder)
        except OSError as error:
            raise RemoteStoreError(f"{folder}: {error}") from error

    def names(self, segment: RemoteSegment) -> list[str]:
        kinds = [kind for kind in SUFFIXES if kind is not IndexKind.TRANSACTION or not segment.txn_index_empty]
        paths = [self._path(segment, suffix) for suffix in (LOG_SUFFIX, *map(SUFFIXES.__getitem__, kinds))]
        return [path.removeprefix(f"{self._root}/") for path in paths]

    def objects(self) -> Iterator[StoredObject]:
        try:
            for name in self._names_in(self._root):
                folder = f"{self._root}/{name}"
                is_folder = self._fs.is_dir(folder)
                partition = parse_folder(name) if is_folder else None
                for entry in self._names_in(folder) if is_folder else [""]:
                    path = f"{name}/{entry}" if is_folder else name
                    segment = parse_file(entry)
                    with contextlib.suppress(FileNotFoundError):  # it was removed meanwhile
                        yield StoredObject(
                            path,
                            self._fs.size(f"{self._root}/{path}"),
                            partition.topic_id if partition else None,
                            partition.index if partition else -1,
                            segment[1] if segment else None,
                        )
        except OSError as error:
            raise RemoteStoreError(f"{self._root}: {error}") from error

    def _names_in(self, folder: str) -> list[str]:
        """Nothing for a folder that is not there, or not any more."""
        try:
            return sorted(self._fs.listdir(folder))
        except FileNotFoundError:
            return []

    def _folder(self, segment: RemoteSegment) -> str:
        return f"{self._root}/{folder_of(segment.partition)}"

    def _path(self, segment: RemoteSegment, suffix: str) -> str:
        return f"{self._folder(segment)}/{file_of(segment, suffix)}"
