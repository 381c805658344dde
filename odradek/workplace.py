"""The temporary folder of a `Broker`: removed with it, or later if its process could not do that."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

PREFIX = "odradek-"
OWNER = ".owner"
"""A file that the owning process keeps locked for as long as it lives."""


def make() -> Path:
    """A new folder, locked by this process. Folders of processes that were killed are removed first."""
    _remove_abandoned(Path(tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    # Locked before it has its name, so that nobody finds it unlocked. The lock goes with the process.
    named_later = folder / f"{OWNER}.new"
    descriptor = os.open(named_later, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    named_later.rename(folder / OWNER)
    _locks[folder] = descriptor
    return folder


def secret_file(folder: Path, name: str, text: str) -> Path:
    """A file in the folder that only this user can read."""
    path = folder / name
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def remove(folder: Path, owner: int) -> None:
    """Remove the folder, but not at the end of a forked child: it is its parent's (`owner`, a process id)."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
        descriptor = _locks.pop(folder, None)
        if descriptor is not None:
            os.close(descriptor)


_locks: dict[Path, int] = {}


def _remove_abandoned(above: Path) -> None:
    for folder in above.glob(f"{PREFIX}*"):
        if _is_abandoned(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _is_abandoned(folder: Path) -> bool:
    """Whether it is one of ours whose process has ended."""
    try:
        descriptor = os.open(folder / OWNER, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        return False
    with contextlib.ExitStack() as undo:
        undo.callback(os.close, descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return os.fstat(descriptor).st_uid == os.getuid()
