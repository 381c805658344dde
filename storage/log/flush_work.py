"""The blocking part of one flush: what it puts on the device."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from storage.files import File, FileSystem, is_transient, sync_file
from storage.log.leader_epochs import LeaderEpochs
from storage.log.log_offset import LogOffsetMetadata

logger = structlog.get_logger(__name__)


@dataclass(slots=True)
class FlushWork:
    """What one flush must sync: open files, files by name, and the folder if names in it have changed.

    `epochs` are saved too, so that the recovery point never passes an epoch that no file has. `target` is the log's end
    when the flush was prepared, `generation` the log's count of truncations at that time; `release` lets go of the open
    files.
    """

    fs: FileSystem
    target: LogOffsetMetadata
    generation: int
    files: list[File]
    names: list[str]
    folder: str | None
    release: Callable[[], None]
    epochs: LeaderEpochs | None
    _turn: threading.Lock = field(default_factory=threading.Lock)
    _done: bool = False
    _error: OSError | None = None

    def run(self) -> None:
        """Sync everything, once; blocking, any thread. A second caller waits for the same outcome. Raises OSError."""
        with self._turn:
            if self._error is not None:
                raise self._error
            if self._done:
                return
            try:
                self._sync()
            except OSError as error:
                self._error = error
                raise
            self._done = True

    def _sync(self) -> None:
        for file in self.files:
            file.fdatasync()
        for name in self.names:
            with contextlib.suppress(FileNotFoundError):  # its segment was removed meanwhile
                sync_file(self.fs, name)
        if self.folder is not None:
            self.fs.fsync_dir(self.folder)
        if self.epochs is not None:
            _save_or_wait(self.epochs)


def _save_or_wait(epochs: LeaderEpochs) -> None:
    """Save the epochs, or leave that to the next flush if room or a descriptor is missing: records have them too."""
    try:
        epochs.save()
    except OSError as error:
        if not is_transient(error):
            raise
        logger.warning("leader epochs not saved, retried at the next flush", error=str(error))
