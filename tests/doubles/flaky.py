"""A file system in memory whose operations fail at random, for want of room or descriptors or because of the device."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum, auto

from tests.doubles.files import Fault, MemoryFile, MemoryFileSystem

NEEDS_ROOM = frozenset({"create", "pwrite", "rename", "link", "mkdir"})
NEEDS_A_DESCRIPTOR = frozenset({"open", "listdir", "fsync_dir", "lock"})
SYNCS = frozenset({"fdatasync", "fsync_dir"})


class Trouble(Enum):
    """What fails, and how."""

    NONE = auto()
    ROOM = auto()
    DESCRIPTORS = auto()
    DEVICE = auto()
    SYNC = auto()  # by an error of the device
    SYNC_ROOM = auto()  # blocks are only found when they are written out, and there are none

    def error(self, operation: str) -> int | None:
        """The errno of an operation that fails so; None if it cannot."""
        match self:
            case Trouble.ROOM if operation in NEEDS_ROOM:
                return errno.ENOSPC
            case Trouble.DESCRIPTORS if operation in NEEDS_A_DESCRIPTOR:
                return errno.EMFILE
            case Trouble.DEVICE if operation != "create":
                return errno.EIO
            case Trouble.SYNC if operation in SYNCS:
                return errno.EIO
            case Trouble.SYNC_ROOM if operation in SYNCS:
                return errno.ENOSPC
        return None


class FlakyFileSystem(MemoryFileSystem):
    """What `trouble` has fail below `where` fails so often as `chance` says (0 to 1) and `rng` has it.

    A write that lacks room takes nothing, or a part.

    Attributes:
        failed: operations that failed.
        before: called before each operation that changes something.
    """

    def __init__(self, now_ms: Callable[[], int] = lambda: 0) -> None:
        super().__init__(now_ms)
        self.trouble = Trouble.NONE
        self.chance = 0.0
        self.where = ""
        self.rng = random.Random(0)
        self.failed = 0
        self.before: Callable[[], None] | None = None
        self.hook = self._strike

    def get_into(self, trouble: Trouble, chance: float, seed: int, where: str = "") -> None:
        """From now on."""
        self.trouble, self.chance, self.where, self.rng = trouble, chance, where, random.Random(seed)

    @contextmanager
    def calm(self) -> Iterator[None]:
        """Nothing fails meanwhile."""
        chance, self.chance = self.chance, 0.0
        try:
            yield
        finally:
            self.chance = chance

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        if create and not self.exists(path):
            self._strike("create", path)
        return super().open(path, create=create)

    def _strike(self, operation: str, path: str) -> None:
        if self.before is not None:
            self.before()
        if self.chance:
            error = self.trouble.error(operation)
            if error is not None and path.startswith(self.where) and self.rng.random() < self.chance:
                self.failed += 1
                if self.trouble is Trouble.ROOM and operation == "pwrite" and self.rng.random() < 0.5:
                    self.inject(Fault(operation, 1, taken=self.rng.randint(1, 100), path_part=path))
                    return
                raise OSError(error, f"injected into {operation}", path)
