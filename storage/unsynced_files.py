"""Files that are never synced to the device: for data that nobody keeps, such as a test's.

A crash of the process loses nothing, as the kernel has every write. A power failure may lose or damage anything.
"""

from __future__ import annotations

from storage.files import File, OsFile, OsFileSystem, os_descriptor


class UnsyncedFile(OsFile):
    """A file descriptor whose writes the kernel may bring to the device whenever it likes."""

    __slots__ = ()

    def fdatasync(self) -> None:
        pass


class UnsyncedFileSystem(OsFileSystem):
    """The operating system's files, without a sync."""

    def open(self, path: str, *, create: bool = False) -> File:
        return UnsyncedFile(os_descriptor(path, create=create))

    def fsync_dir(self, path: str) -> None:
        pass
