"""The end of this process, as a crash or a power failure brings it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Sequence

import structlog

from broker.faults.power_failure import PowerFailureFiles
from broker.faults.spec import Then
from storage.files import FileSystem

logger = structlog.get_logger(__name__)


class Crash:
    """Ends this process at once: it does nothing more.

    After a crash its files stay as the kernel has them. After a power failure they have only what was synced.
    """

    def __init__(self, fs: FileSystem, log_dirs: Sequence[str]) -> None:
        self._fs = fs
        self._log_dirs = list(log_dirs)

    def now(self, then: Then) -> None:
        logger.warning("a test ends this process", how=then.value)
        if then is Then.POWER_FAILURE:
            self._files().fail(self._log_dirs)
        os.kill(os.getpid(), signal.SIGKILL)

    def at_sync(self, folders: Iterable[str], then: Then) -> None:
        """As `now`, before a file in one of these folders is synced next."""
        starts = tuple(f"{folder}/" for folder in folders)

        def before_sync(path: str) -> None:
            if path.startswith(starts):
                self.now(then)

        self._files().on_sync = before_sync

    def _files(self) -> PowerFailureFiles:
        if not isinstance(self._fs, PowerFailureFiles):
            raise RuntimeError("a broker without the control interface does not know what is synced")
        return self._fs
