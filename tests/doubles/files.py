"""A file system in memory for tests, with faults on order and with crashes that lose what was not synced.

What survives a crash is chosen by a seeded random source, as harshly as POSIX allows: each file falls back to its last
`fdatasync`, keeps everything, or is torn in blocks between the two; each folder keeps only a prefix of the names
created, renamed or removed since its last `fsync_dir`.

After an `fdatasync` that failed the dirty blocks count as clean, as in Linux: they can still be read, and no later
`fdatasync` brings them to the device unless they are written again.
"""

from __future__ import annotations

import copy
import errno
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from protocol.primitives import Buffer
from tests.doubles.device import Folder, Inode, Unsynced

__all__ = ["Fault", "MemoryFile", "MemoryFileSystem", "Unsynced"]


@dataclass(slots=True)
class Fault:
    """OSError(errno) at the n-th matching operation from now (1: the next).

    A write with `taken` does not raise: it takes that many bytes and says so.
    """

    operation: str
    number: int
    error: int = errno.EIO
    taken: int = 0
    path_part: str = ""


class MemoryFile:
    """An open file; it goes on working after its name is gone."""

    def __init__(self, fs: MemoryFileSystem, path: str, inode: Inode) -> None:
        self._fs = fs
        self._path = path
        self._inode = inode
        self.closed = False
        fs.open_files += 1

    def pread(self, size: int, position: int) -> bytes:
        self._use("pread")
        return bytes(self._inode.data[position : position + size])

    def pread_nowait(self, size: int, position: int) -> bytearray | None:
        self._use("pread_nowait")
        if self._fs.page_cache_cold:
            return None
        data = self._inode.data[position : position + size]
        return data if len(data) == size else None

    def pwrite(self, data: Buffer, position: int) -> int:
        fault = self._use("pwrite", raises=False)
        taken = data if fault is None else memoryview(data)[: fault.taken]
        content = self._inode.data
        if len(taken):
            if position > len(content):
                content.extend(bytes(position - len(content)))
            content[position : position + len(taken)] = taken
            self._inode.note_dirty(position, position + len(taken))
            self._inode.modified_ms = self._fs.now_ms()
        if fault is not None and not fault.taken:
            raise OSError(fault.error, "injected", self._path)
        return len(taken)

    def truncate(self, size: int) -> None:
        self._use("truncate")
        content = self._inode.data
        self._inode.note_dirty(size, max(size, len(content)))
        if size < len(content):
            del content[size:]
        else:
            content.extend(bytes(size - len(content)))

    def fdatasync(self) -> None:
        try:
            self._use("fdatasync")
        except OSError:
            self._inode.drop_dirty()
            raise
        self._inode.durable = self._inode.synced()

    def size(self) -> int:
        return len(self._inode.data)

    def identity(self) -> tuple[int, int]:
        return 0, id(self._inode)

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._fs.open_files -= 1

    def _use(self, operation: str, *, raises: bool = True) -> Fault | None:
        if self.closed:
            raise OSError(errno.EBADF, "file is closed", self._path)
        return self._fs.count(operation, self._path, raises=raises)


class MemoryFileSystem:
    """Folders and files in dictionaries.

    Attributes:
        operations: how many operations ran, by name.
        hook: called with (operation, path) before each one; may raise to stop the test's machine right there.
        page_cache_cold: `pread_nowait` answers that it would block.
        open_files: descriptors not closed.
    """

    def __init__(self, now_ms: Callable[[], int] = lambda: 0) -> None:
        self._root = Folder()
        self._faults: list[Fault] = []
        self._locked: set[str] = set()
        self.now_ms = now_ms
        self.operations: dict[str, int] = {}
        self.hook: Callable[[str, str], None] | None = None
        self.page_cache_cold = False
        self.open_files = 0

    # -- for the test

    def inject(self, fault: Fault) -> None:
        """Have an operation fail."""
        self._faults.append(fault)

    def copy(self) -> Self:
        """The same files and names, synced or not, to be crashed in place of these; nothing is open or locked."""
        other = type(self)(self.now_ms)
        other._root = copy.deepcopy(self._root)
        return other

    def crash(self, unsynced: Unsynced = Unsynced.LOST, seed: int = 0) -> None:
        """Power failure: keep what was synced, and of the rest what `unsynced` says. Forget open files after it."""
        self._locked.clear()
        self._faults.clear()
        self._root.crash(unsynced, random.Random(seed))

    def unlock_all(self) -> None:
        """The process that held the locks is gone."""
        self._locked.clear()

    def forget_failed_syncs(self) -> None:
        """All blocks can be synced again: a process cannot tell what failed in the one before it."""
        folders = [self._root]
        while folders:
            for node in folders.pop().names.values():
                if isinstance(node, Folder):
                    folders.append(node)
                else:
                    node.dropped.clear()

    def count(self, operation: str, path: str, *, raises: bool = True) -> Fault | None:
        """Account for an operation; the fault that strikes it, raised unless `raises` is false."""
        self.operations[operation] = self.operations.get(operation, 0) + 1
        if self.hook is not None:
            self.hook(operation, path)
        for fault in self._faults:
            if fault.operation == operation and fault.path_part in path:
                fault.number -= 1
                if fault.number == 0:
                    self._faults.remove(fault)
                    if raises:
                        raise OSError(fault.error, "injected", path)
                    return fault
        return None

    # -- FileSystem

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        self.count("open", path)
        folder, name = self._parent(path)
        node = folder.names.get(name)
        if node is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            node = folder.names[name] = Inode()
            node.modified_ms = self.now_ms()
            folder.changed()
        if isinstance(node, Folder):
            raise IsADirectoryError(errno.EISDIR, "is a folder", path)
        return MemoryFile(self, path, node)

    def open_to_read(self, path: str) -> MemoryFile:
        return self.open(path)

    def rename(self, old: str, new: str) -> None:
        self.count("rename", old)
        source, source_name = self._parent(old)
        target, target_name = self._parent(new)
        if source_name not in source.names:
            raise FileNotFoundError(errno.ENOENT, "no such file", old)
        replaced = target.names.get(target_name)
        if isinstance(replaced, Folder) and replaced.names:
            raise OSError(errno.ENOTEMPTY, "folder not empty", new)
        target.names[target_name] = source.names.pop(source_name)
        target.changed()
        if source is not target:
            source.changed()

    def link(self, old: str, new: str) -> None:
        self.count("link", old)
        folder, name = self._parent(new)
        if name in folder.names:
            raise FileExistsError(errno.EEXIST, "exists", new)
        folder.names[name] = self._inode(old)
        folder.changed()

    def copy_file(self, old: str, new: str, size: int) -> None:
        self.count("copy", old)
        data = self._inode(old).data
        if len(data) < size:
            raise OSError(errno.EIO, "too short", old)
        file = self.open(new, create=True)
        file.pwrite(bytes(data[:size]), 0)
        file.close()

    def unlink(self, path: str) -> None:
        self.count("unlink", path)
        self._inode(path)
        folder, name = self._parent(path)
        del folder.names[name]
        folder.changed()

    def listdir(self, path: str) -> list[str]:
        self.count("listdir", path)
        return list(self._folder(path).names)

    def mkdir(self, path: str) -> None:
        self.count("mkdir", path)
        folder = self._root
        for part in _parts(path):
            node = folder.names.get(part)
            if node is None:
                node = folder.names[part] = Folder()
                folder.changed()
            if not isinstance(node, Folder):
                raise NotADirectoryError(errno.ENOTDIR, "not a folder", path)
            folder = node

    def rmdir(self, path: str) -> None:
        self.count("rmdir", path)
        if self._folder(path).names:
            raise OSError(errno.ENOTEMPTY, "folder not empty", path)
        folder, name = self._parent(path)
        del folder.names[name]
        folder.changed()

    def exists(self, path: str) -> bool:
        return self._node(path) is not None

    def is_dir(self, path: str) -> bool:
        return isinstance(self._node(path), Folder)

    def is_file(self, path: str) -> bool:
        if (node := self._node(path)) is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return not isinstance(node, Folder)

    def is_link(self, path: str) -> bool:
        return False

    def identity(self, path: str) -> tuple[int, int]:
        self.count("identity", path)
        node = self._node(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return 0, id(node)

    def size(self, path: str) -> int:
        self.count("size", path)
        return len(self._inode(path).data)

    def modified_ms(self, path: str) -> int:
        return self._inode(path).modified_ms

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self.count("set_modified_ms", path)
        self._inode(path).modified_ms = modified_ms

    def fsync_dir(self, path: str) -> None:
        self.count("fsync_dir", path)
        folder = self._folder(path)
        folder.durable = dict(folder.names)
        folder.history = []

    def space(self, path: str) -> tuple[int, int]:
        self._folder(path)
        return 1 << 40, 1 << 39

    def lock(self, path: str) -> Callable[[], None] | None:
        self.count("lock", path)
        self.open(path, create=True).close()
        if path in self._locked:
            return None
        self._locked.add(path)
        return lambda: self._locked.discard(path)

    def _node(self, path: str) -> Inode | Folder | None:
        node: Inode | Folder | None = self._root
        for part in _parts(path):
            node = node.names.get(part) if isinstance(node, Folder) else None
        return node

    def _folder(self, path: str) -> Folder:
        node = self._node(path)
        if not isinstance(node, Folder):
            raise FileNotFoundError(errno.ENOENT, "no such folder", path)
        return node

    def _inode(self, path: str) -> Inode:
        node = self._node(path)
        if not isinstance(node, Inode):
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return node

    def _parent(self, path: str) -> tuple[Folder, str]:
        folder, _, name = path.rpartition("/")
        return self._folder(folder), name


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]
