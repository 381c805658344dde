"""A file system that keeps a copy of whatever is removed through it, for repairs that a user may want to undo."""

from __future__ import annotations

from collections.abc import Callable

from protocol.primitives import Buffer
from storage.files import File, FileSystem, write_fully
from storage.segments.segment_files import LOG_SUFFIX

_CHUNK = 1 << 20


class _KeepingFile:
    """A segment's file: what a truncation cuts off is copied first."""

    def __init__(self, file: File, keep: Callable[[File, int], None]) -> None:
        self._file = file
        self._keep = keep
        self.pread = file.pread
        self.pread_nowait = file.pread_nowait
        self.pwrite: Callable[[Buffer, int], int] = file.pwrite
        self.fdatasync = file.fdatasync
        self.size = file.size
        self.identity = file.identity
        self.close = file.close

    def truncate(self, size: int) -> None:
        if size < self._file.size():
            self._keep(self._file, size)
        self._file.truncate(size)


class KeepingFileSystem:
    """Unlinking a path below `root` moves it to the same place below `aside`.

    Attributes:
        kept: the paths below `aside`, in order.
    """

    def __init__(self, fs: FileSystem, root: str, aside: str) -> None:
        self._fs = fs
        self._root = root
        self._aside = aside
        self.kept: list[str] = []
        self.open_to_read = fs.open_to_read
        self.rename = fs.rename
        self.link = fs.link
        self.copy_file = fs.copy_file
        self.listdir = fs.listdir
        self.mkdir = fs.mkdir
        self.rmdir = fs.rmdir
        self.exists = fs.exists
        self.is_dir = fs.is_dir
        self.is_file = fs.is_file
        self.is_link = fs.is_link
        self.identity = fs.identity
        self.size = fs.size
        self.modified_ms = fs.modified_ms
        self.set_modified_ms = fs.set_modified_ms
        self.fsync_dir = fs.fsync_dir
        self.space = fs.space
        self.lock = fs.lock

    def open(self, path: str, *, create: bool = False) -> File:
        file = self._fs.open(path, create=create)
        if not path.endswith(LOG_SUFFIX):
            return file
        return _KeepingFile(file, lambda inner, size: self._keep_tail(path, inner, size))

    def unlink(self, path: str) -> None:
        target = self._place(path)
        self._fs.rename(path, target)
        self._fs.fsync_dir(target.rpartition("/")[0])

    def _keep_tail(self, path: str, file: File, start: int) -> None:
        target = self._place(f"{path}.from-{start}")
        copy = self._fs.open(target, create=True)
        try:
            for position in range(start, file.size(), _CHUNK):
                write_fully(copy, file.pread(min(_CHUNK, file.size() - position), position), position - start)
            copy.fdatasync()
        finally:
            copy.close()
        self._fs.fsync_dir(target.rpartition("/")[0])

    def _place(self, path: str) -> str:
        """The path to move a file to, whose folder is made; a name that was kept before gets a number."""
        target = self._aside + path.removeprefix(self._root)
        self._fs.mkdir(target.rpartition("/")[0])
        number = 1
        while self._fs.exists(target):
            number += 1
            target = f"{self._aside}{path.removeprefix(self._root)}.{number}"
        self.kept.append(target)
        return target
