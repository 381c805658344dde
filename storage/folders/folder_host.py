"""The folder of `log.dirs` that a log lies in, as the log knows it (`LogHost`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from storage.folders.log_dirs import LogDir


class Folders(Protocol):
    """All folders of the node (`LogManager`)."""

    failures: int

    def checkpoint_truncated(self, log_dir: LogDir) -> None: ...
    def fail_if_device(self, log_dir: LogDir, error: Exception) -> None: ...


@dataclass(frozen=True, slots=True)
class FolderHost:
    """The host of a log: all that the log does with its folder."""

    folders: Folders
    log_dir: LogDir

    def checkpoint(self) -> None:
        self.folders.checkpoint_truncated(self.log_dir)

    def failed(self, error: Exception) -> None:
        self.folders.failures += 1
        self.folders.fail_if_device(self.log_dir, error)
