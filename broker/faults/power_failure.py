"""A file system that knows what is on the device, so that a power failure can be simulated.

How it works: each call goes on to the file system below. Of each file that this process has opened to write, the size
is kept that it had at its last sync; what was there before counts as synced. Of each folder, the names are kept that
were made or renamed since its last sync. `fail` takes away everything else: files are cut to their synced size, names
that were not synced go, and renamed files get their old names back, with what they replaced. Removed files stay so.
That is the harshest outcome that POSIX allows for files that are only appended to.

Syncs happen in worker threads, hence the lock. A write costs nothing here: it is the other file system's own method.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from storage.file_system_over import FileSystemOver
from storage.files import File, FileSystem, Identity, write_fully


@dataclass(eq=False, slots=True)
class _Name:
    """A name that was made, or got by a rename, since its folder was synced.

    Attributes:
        number: counts all names, in the order in which they came.
        old: the name before; None if it was made.
        replaced: the file that had the name, still open.
    """

    number: int
    path: str
    old: str | None = None
    replaced: File | None = None


class TrackedFile:
    """An open file; its syncs and truncations are noted."""

    __slots__ = ("_file", "_files", "_path", "close", "identity", "pread", "pread_nowait", "pwrite", "size")

    def __init__(self, file: File, path: str, files: PowerFailureFiles) -> None:
        self._file = file
        self._path = path
        self._files = files
        self.pread = file.pread
        self.pread_nowait = file.pread_nowait
        self.pwrite = file.pwrite
        self.size = file.size
        self.identity = file.identity
        self.close = file.close

    def truncate(self, size: int) -> None:
        self._file.truncate(size)
        self._files.truncated(self.identity(), size)

    def fdatasync(self) -> None:
        self._files.before_sync(self._path)
        size = self._file.size()
        self._file.fdatasync()
        self._files.synced(self.identity(), size)


class PowerFailureFiles(FileSystemOver):
    """See above.

    Attributes:
        on_sync: called with the path of a file before it is synced, in the thread that does that.
    """

    def __init__(self, fs: FileSystem) -> None:
        super().__init__(fs)
        self._synced: dict[Identity, int] = {}
        self._names: dict[str, list[_Name]] = {}  # by folder
        self._count = 0
        self._lock = threading.RLock()
        self._failed = False
        self.on_sync: Callable[[str], None] | None = None

    # -- the failure

    def fail(self, folders: list[str]) -> None:
        """Take away all in these folders that was not synced.

        Other threads that change names or sync files wait for ever from now on.
        """
        self._lock.acquire()
        self._failed = True
        for folder in folders:
            self._cut(folder)
        names = [name for names in self._names.values() for name in names]
        for name in sorted(names, key=lambda name: name.number, reverse=True):
            self._undo(name)
        self._names.clear()

    def _cut(self, path: str) -> None:
        for name in self._fs.listdir(path):
            below = f"{path}/{name}"
            if self._fs.is_dir(below):
                self._cut(below)
                continue
            synced = self._synced.get(self._fs.identity(below))
            if synced is not None and self._fs.size(below) > synced:
                file = self._fs.open(below)
                file.truncate(synced)
                file.close()

    def _undo(self, name: _Name) -> None:
        exists = self._fs.exists(name.path)
        if name.old is not None and exists:
            self._fs.rename(name.path, name.old)
        elif exists:
            self._remove(name.path)
        if name.replaced is not None:
            size = name.replaced.size()
            synced = self._synced.get(name.replaced.identity(), size)
            file = self._fs.open(name.path, create=True)
            write_fully(file, name.replaced.pread(min(size, synced), 0), 0)
            file.close()

    def _remove(self, path: str) -> None:
        if not self._fs.is_dir(path):
            self._fs.unlink(path)
            return
        for name in self._fs.listdir(path):
            self._remove(f"{path}/{name}")
        self._fs.rmdir(path)

    def assume_synced(self, folder: str) -> None:
        """Take all that is in a folder now for synced: a power failure is never to undo it."""
        with self._lock:
            self._stop_if_failed()
            for below in self._folders(folder):
                self._forget(below)
            self._forget(_folder_of(folder), folder)
            self._sync_below(folder)

    def _sync_below(self, path: str) -> None:
        for name in self._fs.listdir(path):
            below = f"{path}/{name}"
            if self._fs.is_dir(below):
                self._sync_below(below)
            else:
                self._synced[self._fs.identity(below)] = self._fs.size(below)

    # -- what is known of files

    def before_sync(self, path: str) -> None:
        if self.on_sync is not None:
            self.on_sync(path)

    def synced(self, identity: Identity, size: int) -> None:
        """Note that a file is on the device up to `size`."""
        with self._lock:
            self._stop_if_failed()
            self._synced[identity] = max(size, self._synced.get(identity, 0))

    def truncated(self, identity: Identity, size: int) -> None:
        with self._lock:
            self._stop_if_failed()
            if identity in self._synced:
                self._synced[identity] = min(size, self._synced[identity])

    def _stop_if_failed(self) -> None:
        """Only the thread that failed the power gets here after that, and it must not."""
        assert not self._failed, "the power has failed"

    # -- FileSystem

    def open(self, path: str, *, create: bool = False) -> TrackedFile:
        with self._lock:
            self._stop_if_failed()
            is_new = create and not self._fs.exists(path)
            file = self._fs.open(path, create=create)
            if is_new:
                self._synced[file.identity()] = 0
                self._note(path)
            else:
                self._synced.setdefault(file.identity(), file.size())
        return TrackedFile(file, path, self)

    def rename(self, old: str, new: str) -> None:
        with self._lock:
            self._stop_if_failed()
            replaced = self._kept(new)
            self._fs.rename(old, new)
            if self._fs.is_dir(new):
                self._move(old, new)
            self._note(new, old, replaced)

    def _move(self, old: str, new: str) -> None:
        """Note that a folder, and so what is in it, has another name."""
        for folder in self._folders(new):
            names = self._names.pop(old + folder[len(new) :], [])
            for name in names:
                name.path = _moved(name.path, old, new)
                name.old = None if name.old is None else _moved(name.old, old, new)
            if names:
                self._names.setdefault(folder, []).extend(names)

    def _folders(self, folder: str) -> Iterator[str]:
        """A folder, and those in it."""
        yield folder
        for name in self._fs.listdir(folder):
            if self._fs.is_dir(f"{folder}/{name}"):
                yield from self._folders(f"{folder}/{name}")

    def _kept(self, path: str) -> File | None:
        """The file that is to be replaced, if there is one; open, so that its content stays."""
        if not self._fs.exists(path) or self._fs.is_dir(path):
            return None
        return self._fs.open_to_read(path)

    def link(self, old: str, new: str) -> None:
        with self._lock:
            self._stop_if_failed()
            self._fs.link(old, new)
            self._note(new)

    def copy_file(self, old: str, new: str, size: int) -> None:
        with self._lock:
            self._stop_if_failed()
            self._fs.copy_file(old, new, size)
            self._synced[self._fs.identity(new)] = 0
            self._note(new)

    def unlink(self, path: str) -> None:
        with self._lock:
            self._stop_if_failed()
            identity = self._fs.identity(path)
            self._fs.unlink(path)
            self._synced.pop(identity, None)
            self._forget(_folder_of(path), path)

    def mkdir(self, path: str) -> None:
        with self._lock:
            self._stop_if_failed()
            missing = []
            above = path
            while above and not self._fs.exists(above):
                missing.append(above)
                above = above.rpartition("/")[0]
            self._fs.mkdir(path)
            for one in reversed(missing):
                self._note(one)

    def rmdir(self, path: str) -> None:
        with self._lock:
            self._stop_if_failed()
            self._fs.rmdir(path)
            self._forget(path)
            self._forget(_folder_of(path), path)

    def fsync_dir(self, path: str) -> None:
        self._fs.fsync_dir(path)
        with self._lock:
            self._stop_if_failed()
            self._forget(path)

    # -- names

    def _note(self, path: str, old: str | None = None, replaced: File | None = None) -> None:
        self._count += 1
        self._names.setdefault(_folder_of(path), []).append(_Name(self._count, path, old, replaced))

    def _forget(self, folder: str, path: str | None = None) -> None:
        """Forget the names in a folder, or one of them: they are synced, or gone."""
        kept = []
        for name in self._names.pop(folder, []):
            if path is not None and name.path != path:
                kept.append(name)
            elif name.replaced is not None:
                name.replaced.close()
        if kept:
            self._names[folder] = kept


def _folder_of(path: str) -> str:
    return path.rpartition("/")[0] or ("/" if path.startswith("/") else ".")


def _moved(path: str, old: str, new: str) -> str:
    return new + path[len(old) :] if path.startswith(f"{old}/") else path
