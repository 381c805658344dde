"""Looks regularly whether the folders of `log.dirs` are still there, and whether shortages are over."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from storage.files import is_device_failure
from storage.folders.folder_watch import FolderWatch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from storage.folders.log_manager import LogManager
    from storage.log.unified_log import UnifiedLog

CHECK_MS = 1_000
"""Time between two checks. A folder that is gone is noticed at the next one, a log's files at the second."""

PROCESS = "the process"
"""The place of a shortage of descriptors that is nobody's folder."""


class FolderChecks:
    """One watch a folder, each in a lane of its own: a check of a file system that hangs holds up nothing else.

    `others` are logs that are not the manager's: the metadata log. `spare_descriptor` raises OSError if the process can
    open no file.
    """

    def __init__(self, logs: LogManager, others: Sequence[UnifiedLog], spare_descriptor: Callable[[], None]) -> None:
        self._logs = logs
        self._others = tuple(others)
        self._services = logs.services
        self._spare_descriptor = spare_descriptor
        self._watches = [FolderWatch(self._services.fs, log_dir) for log_dir in logs.usable_dirs]
        self._busy: set[FolderWatch] = set()

    async def check(self) -> None:
        """Check every folder whose last check is over; take offline what is gone."""
        self._check_descriptors()
        await asyncio.gather(*map(self._check, [watch for watch in self._watches if watch not in self._busy]))

    async def _check(self, watch: FolderWatch) -> None:
        if watch.log_dir.failed:
            return
        self._busy.add(watch)
        try:
            await self._check_one(watch)
        finally:
            self._busy.discard(watch)

    async def _check_one(self, watch: FolderWatch) -> None:
        workers = self._services.workers.lane(f"watch {watch.log_dir.path}")
        try:
            await workers.call(watch.check_folder)
            missing = await workers.call(partial(watch.check_logs, self._logs.logs.copy(), self._others))
        except OSError as error:
            if is_device_failure(error):
                self._logs.fail_folder(watch.log_dir, error)
                return
            raise
        for log, reason in missing:
            if not log.is_offline and log.folder.startswith(f"{watch.log_dir.path}/"):
                log.fail(reason)
        for shortage in self._services.shortages.quiet():
            if shortage.place == watch.log_dir.path and await workers.call(watch.has_room):
                self._services.shortages.over(shortage)

    def _check_descriptors(self) -> None:
        """The kernel, or the loop, turns connections away without a word where no descriptor is left."""
        shortages = self._services.shortages
        try:
            self._spare_descriptor()
        except OSError as error:
            shortages.note(PROCESS, error)
            return
        for shortage in shortages.quiet():
            if shortage.place == PROCESS:
                shortages.over(shortage)

    def problems(self) -> list[str]:
        """What an operator should know now, a sentence each."""
        failed = [f"log directory {path} is offline" for path in sorted(self._logs.failed_folders)]
        return failed + [str(shortage) for shortage in self._services.shortages.all()]
