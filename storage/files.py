"""The only access to the data folders: the file system as the log needs it, and the operating system's implementation.

Nothing else opens, reads, renames or syncs a file in them. Tests substitute a file system in memory.
Every method raises OSError as the operating system would; the caller decides what that means for its log.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable
from typing import Protocol

from protocol.primitives import Buffer

_NOWAIT = getattr(os, "RWF_NOWAIT", 0)
_NO_NOWAIT_SUPPORT = frozenset({errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS})

_DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_OUT_OF_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})
_DEVICE_FAILURES = frozenset(
    {errno.EIO, errno.EROFS, errno.ENXIO, errno.ENODEV, errno.ESTALE, errno.ENOTCONN, errno.EACCES, errno.EPERM}
)

_COPY_BYTES = 1 << 20

Identity = tuple[int, int]
"""Device and inode."""

_FULL_SYNC = getattr(fcntl, "F_FULLFSYNC", None)
"""macOS: fsync leaves the data in the device's own cache, and there is no fdatasync."""


def _sync_all(fd: int) -> None:
    """Bring content, size and times of a file to the device."""
    if _FULL_SYNC is None:
        os.fsync(fd)
        return
    try:
        fcntl.fcntl(fd, _FULL_SYNC)
    except OSError:  # a file system that has no such call
        os.fsync(fd)


_sync_data: Callable[[int], None] = getattr(os, "fdatasync", _sync_all)
"""Bring content and size of a file to the device."""


def is_out_of_descriptors(error: Exception) -> bool:
    """Whether a file could not be opened because too many are open; nothing was done to it."""
    return isinstance(error, OSError) and error.errno in _OUT_OF_DESCRIPTORS


def is_transient(error: Exception) -> bool:
    """Whether there was no room, or no descriptor left: the refused operation may be tried again."""
    return is_out_of_descriptors(error) or (isinstance(error, OSError) and error.errno in _DISK_FULL)


def is_device_failure(error: Exception) -> bool:
    """Whether the device, the mount or the rights to it are at fault, rather than one file."""
    return isinstance(error, OSError) and error.errno in _DEVICE_FAILURES


class File(Protocol):
    """One open file. Positions and sizes are bytes from the file's start."""

    def pread(self, size: int, position: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""

    def pread_nowait(self, size: int, position: int) -> bytearray | None:
        """Exactly `size` bytes if the page cache holds them all, else None; never waits for the device."""

    def pwrite(self, data: Buffer, position: int) -> int:
        """Write, and return how many bytes were written: possibly fewer than given (a full disk, a signal)."""

    def truncate(self, size: int) -> None: ...

    def fdatasync(self) -> None: ...

    def size(self) -> int: ...

    def identity(self) -> Identity:
        """Device and inode of the open file, whatever has become of its name."""

    def close(self) -> None: ...


class FileSystem(Protocol):
    """Folders and names. Paths are absolute or relative to the process, always with `/`."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and writing; FileNotFoundError if it is missing and `create` is false."""

    def open_to_read(self, path: str) -> File:
        """Open for reading alone, which also works for a file that may not be written."""

    def rename(self, old: str, new: str) -> None:
        """Rename a file; `new` is replaced atomically if it exists."""

    def link(self, old: str, new: str) -> None: ...

    def copy_file(self, old: str, new: str, size: int) -> None:
        """Make a new file with the first `size` bytes of another, and its time; shared blocks where the volume can."""

    def unlink(self, path: str) -> None: ...

    def listdir(self, path: str) -> list[str]: ...

    def mkdir(self, path: str) -> None:
        """Make the folder and its parents; fine if it exists."""

    def rmdir(self, path: str) -> None: ...

    def exists(self, path: str) -> bool:
        """False only if there is no such name: one that cannot be examined raises OSError."""

    def is_dir(self, path: str) -> bool:
        """As `exists`."""

    def is_file(self, path: str) -> bool:
        """Whether it is a file of bytes, and no folder, link, device or FIFO. Raises FileNotFoundError."""

    def is_link(self, path: str) -> bool:
        """Whether it is a symbolic link; False also if there is no such name."""

    def identity(self, path: str) -> Identity:
        """Device and inode of the file or folder of that name."""

    def size(self, path: str) -> int:
        """Bytes in the file of that name."""

    def modified_ms(self, path: str) -> int:
        """When the file's content last changed, ms since the epoch."""

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Set when the file's content last changed, ms since the epoch."""

    def fsync_dir(self, path: str) -> None:
        """Make creations, renames and removals of names in this folder survive a power failure."""

    def space(self, path: str) -> tuple[int, int]:
        """(total, usable) bytes of the volume that holds the path."""

    def lock(self, path: str) -> Callable[[], None] | None:
        """Take the exclusive lock on a file (created if missing); return its release, or None if it is taken."""


class OsFile:
    """A file descriptor."""

    __slots__ = ("_fd",)

    _nowait_works = _NOWAIT != 0

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def pread(self, size: int, position: int) -> bytes:
        data = os.pread(self._fd, size, position)
        if len(data) == size:
            return data
        parts = [data]
        missing = size - len(data)
        while data and missing:  # Linux gives at most 2 GB in one call, and a signal may cut a read short
            data = os.pread(self._fd, missing, position + size - missing)
            parts.append(data)
            missing -= len(data)
        return b"".join(parts)

    def pread_nowait(self, size: int, position: int) -> bytearray | None:
        if not OsFile._nowait_works:
            return None
        data = bytearray(size)
        try:
            taken = os.preadv(self._fd, (data,), position, _NOWAIT)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno not in _NO_NOWAIT_SUPPORT:
                raise
            OsFile._nowait_works = False
            return None
        return data if taken == size else None

    def pwrite(self, data: Buffer, position: int) -> int:
        return os.pwrite(self._fd, data, position)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def fdatasync(self) -> None:
        _sync_data(self._fd)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def identity(self) -> Identity:
        return _identity(os.fstat(self._fd))

    def close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)


def os_descriptor(path: str, *, create: bool) -> int:
    """A descriptor of the file, for reading and writing; FileNotFoundError if it is missing and `create` is false."""
    return os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o666)


class OsFileSystem:
    """The operating system's files."""

    def open(self, path: str, *, create: bool = False) -> File:
        return OsFile(os_descriptor(path, create=create))

    def open_to_read(self, path: str) -> File:
        return OsFile(os.open(path, os.O_RDONLY | os.O_CLOEXEC))

    def rename(self, old: str, new: str) -> None:
        os.replace(old, new)

    def link(self, old: str, new: str) -> None:
        os.link(old, new)

    def copy_file(self, old: str, new: str, size: int) -> None:
        with open(old, "rb", buffering=0) as source, open(new, "xb", buffering=0) as target:
            left = size
            while left:
                copied = _copy_some(source.fileno(), target.fileno(), left)
                if not copied:
                    raise OSError(errno.EIO, f"{old} has less than {size} bytes")
                left -= copied
            times = os.fstat(source.fileno())
        os.utime(new, ns=(times.st_atime_ns, times.st_mtime_ns))

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def listdir(self, path: str) -> list[str]:
        return os.listdir(path)

    def mkdir(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def rmdir(self, path: str) -> None:
        os.rmdir(path)

    def exists(self, path: str) -> bool:
        return _mode_of(path) is not None

    def is_dir(self, path: str) -> bool:
        mode = _mode_of(path)
        return mode is not None and stat.S_ISDIR(mode)

    def is_file(self, path: str) -> bool:
        return stat.S_ISREG(os.lstat(path).st_mode)

    def is_link(self, path: str) -> bool:
        return os.path.islink(path)

    def identity(self, path: str) -> Identity:
        return _identity(os.stat(path))

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def fsync_dir(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _sync_all(fd)
        finally:
            os.close(fd)

    def space(self, path: str) -> tuple[int, int]:
        volume = os.statvfs(path)
        return volume.f_blocks * volume.f_frsize, volume.f_bavail * volume.f_frsize

    def lock(self, path: str) -> Callable[[], None] | None:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        except BaseException:
            os.close(fd)
            raise
        return lambda: os.close(fd)


def _copy_some(source: int, target: int, most: int) -> int:
    """Copy on from where both descriptors are; return how many bytes, 0 at the end."""
    try:
        return os.copy_file_range(source, target, most)
    except AttributeError:  # macOS
        pass
    except OSError as error:
        if error.errno not in (*_NO_NOWAIT_SUPPORT, errno.EXDEV):
            raise
    data = os.read(source, min(most, _COPY_BYTES))
    left = memoryview(data)
    while left:
        left = left[os.write(target, left) :]
    return len(data)


def _identity(status: os.stat_result) -> Identity:
    return status.st_dev, status.st_ino


def _mode_of(path: str) -> int | None:
    try:
        return os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None


def write_fully(file: File, data: Buffer, position: int) -> None:
    """Write all of `data`; a write of no bytes is reported as a full disk."""
    taken = file.pwrite(data, position)
    if taken == len(data):
        return
    rest = memoryview(data)
    while taken < len(data):
        more = file.pwrite(rest[taken:], position + taken)
        if more <= 0:
            raise OSError(errno.ENOSPC, "write took no bytes")
        taken += more


def read_file(fs: FileSystem, path: str) -> bytes:
    """The whole content of a small file."""
    file = fs.open_to_read(path)
    try:
        return file.pread(file.size(), 0)
    finally:
        file.close()


def sync_file(fs: FileSystem, path: str) -> None:
    """Sync a file's content to the device."""
    file = fs.open(path)
    try:
        file.fdatasync()
    finally:
        file.close()


def write_file_atomically(fs: FileSystem, path: str, data: bytes, *, sync_folder: bool = True) -> None:
    """Replace a small file so that a crash leaves the old content or the new, never a mixture or nothing.

    Without `sync_folder` the new content is certain to survive only once the caller has synced the folder.
    """
    temporary = path + ".tmp"
    file = fs.open(temporary, create=True)
    try:
        file.truncate(0)
        write_fully(file, data, 0)
        file.fdatasync()
    finally:
        file.close()
    fs.rename(temporary, path)
    if sync_folder:
        fs.fsync_dir(os.path.dirname(path) or ".")


class UnsyncedFile(OsFile):
    """A file whose writes the kernel may bring to the device whenever it likes: for data that nobody keeps.

    A crash of the process loses nothing, as the kernel has every write. A power failure may lose or damage anything.
    """

    __slots__ = ()

    def fdatasync(self) -> None:
        pass


class UnsyncedFileSystem(OsFileSystem):
    """The operating system's files, without a sync."""

    def open(self, path: str, *, create: bool = False) -> File:
        return UnsyncedFile(os_descriptor(path, create=create))

    def fsync_dir(self, path: str) -> None:
        pass
