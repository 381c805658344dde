"""Replaces what is in the folders of `log.dirs` by what a snapshot has, so that a kill at any moment loses nothing.

How it works. In each folder, `.odradek-restore/new` gets the snapshot's files: links to what never changes, copies of
what is appended to. `swap` moves what the folder has into `.odradek-restore/old`, and then the new files out. Until
`confirm`, `undo` can take it all back, in this process or at the next start. The first folder decides for all of them:
it is the first to be changed, and the last to be confirmed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import structlog

from storage.files import FileSystem
from storage.folders.log_dirs import LOCK_FILE
from storage.folders.strays import remove_folder
from storage.state.manifest import FILE_NAME, StateManifest

logger = structlog.get_logger(__name__)

WORK = ".odradek-restore"
NEW = f"{WORK}/new"
MOVING_OUT = f"{WORK}/old.partial"
OLD = f"{WORK}/old"
CONFIRMED = f"{WORK}/old.confirmed"

HISTORIES = ".odradek-histories"
"""What the kit has recorded is no part of the state."""

STAYS = (LOCK_FILE, WORK, HISTORIES, "lost+found")
"""And snapshots that an earlier release has let lie here."""


class FolderExchange:
    """The exchange of the contents of `roots`, the folders of `log.dirs`. Everything blocks, and raises OSError."""

    def __init__(self, fs: FileSystem, roots: Sequence[str]) -> None:
        self._fs = fs
        self._roots = roots

    def prepare(self, path: str, manifest: StateManifest) -> None:
        """Lay out the files of the snapshot at `path` beside what is there."""
        try:
            for number, (root, files) in enumerate(zip(self._roots, manifest.folders, strict=True)):
                self._remove(root, WORK)
                self._fs.mkdir(f"{root}/{NEW}")
                made = {""}
                for name, entry in files.items():
                    folder = name.rpartition("/")[0]
                    if folder not in made:
                        self._fs.mkdir(f"{root}/{NEW}/{folder}")
                        made.add(folder)
                    lay_out(self._fs, f"{path}/{number}/{name}", f"{root}/{NEW}/{name}", entry.size, entry.crc is None)
        except BaseException:
            self.discard()
            raise

    def discard(self) -> None:
        """Remove what was laid out, or was replaced and confirmed."""
        for root in self._roots:
            self._remove(root, WORK)

    def swap(self) -> None:
        """Replace the contents; nobody may use the folders."""
        for root in self._roots:
            self._fs.mkdir(f"{root}/{MOVING_OUT}")
            self._move(root, root, f"{root}/{MOVING_OUT}")
            self._fs.rename(f"{root}/{MOVING_OUT}", f"{root}/{OLD}")
            self._move(root, f"{root}/{NEW}", root)

    def confirm(self) -> None:
        """Remove what was there before."""
        for root in reversed(self._roots):
            self._fs.rename(f"{root}/{OLD}", f"{root}/{CONFIRMED}")

    def undo(self) -> None:
        """Put back what was there before, whichever step of `swap` or `confirm` was the last."""
        for root in reversed(self._roots):
            for kept in (OLD, CONFIRMED):
                if self._fs.exists(f"{root}/{kept}"):
                    self._fs.mkdir(f"{root}/{NEW}")
                    self._move(root, root, f"{root}/{NEW}")
                    self._fs.rename(f"{root}/{kept}", f"{root}/{MOVING_OUT}")
            if self._fs.exists(f"{root}/{MOVING_OUT}"):
                self._move(root, f"{root}/{MOVING_OUT}", root)
            self._remove(root, WORK)

    def undo_unfinished(self) -> None:
        """Undo, at a start, an exchange that was not confirmed, and remove what is left of one that was."""
        if any(self._fs.exists(f"{self._roots[0]}/{kept}") for kept in (OLD, MOVING_OUT)):
            logger.warning("undoing a restore that was interrupted", log_dirs=list(self._roots))
            self.undo()
        self.discard()

    def _move(self, root: str, source: str, target: str) -> None:
        for name in self._fs.listdir(source):
            if source != root or not (name in STAYS or self._fs.exists(f"{root}/{name}/{FILE_NAME}")):
                self._fs.rename(f"{source}/{name}", f"{target}/{name}")

    def _remove(self, root: str, name: str) -> None:
        if self._fs.exists(f"{root}/{name}"):
            remove_folder(self._fs, f"{root}/{name}")


def lay_out(fs: FileSystem, source: str, target: str, size: int, linked: bool) -> None:
    """Link or copy a file of a snapshot; what cannot be linked, on another volume, say, is copied. Raises OSError."""
    if linked:
        with contextlib.suppress(OSError):
            fs.link(source, target)
            return
    fs.copy_file(source, target, size)
