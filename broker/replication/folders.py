"""The folders of `log.dirs`: whether they are still there, and whether they have room.

`FolderChecks` looks regularly whether a folder is gone and whether a shortage is over. `FullFolders` knows the
folders without room, whose replicas other brokers are to lead. A leader that cannot write refuses its clients until
somebody makes room, though other brokers have all that it has. So while a folder lacks room the controller is told
that the replicas in it are lost (`directory_assignments`), as far as another one is in sync: it elects another
leader, and takes this node out of the ISR, so that acks=all does not wait for it either. A lack of descriptors gives
nothing away: connections use them up, and clients would take theirs to the next leader, and the next. A replica that
is lost is not fetched: it would be in sync again without a byte of room as long as nothing is written. What no other
broker has in sync stays as it is: it can be read here, and waits for room. Some time after the last shortage the
controller is told the folders again, the replicas follow, and may lead once they are in sync. Where a folder of
Kafka's has no room, the folder fails, and with the last folder the broker.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

import structlog

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
        """List the problems that an operator should know now, a sentence each."""
        failed = [f"log directory {path} is offline" for path in sorted(self._logs.failed_folders)]
        return failed + [str(shortage) for shortage in self._services.shortages.all()]


logger = structlog.get_logger(__name__)

HOLD_MS, LONGEST_HOLD_MS = 10_000, 60_000
"""How long a folder must have been without a shortage; twice as long each time that it was full again."""


class FullFolders:
    """`look` finds out which folders they are.

    Attributes:
        paths: the folders that lack room, or lacked it a moment ago.
    """

    def __init__(self, logs: LogManager) -> None:
        self._logs = logs
        self._until_ms: dict[str, float] = {}
        self._hold_ms: dict[str, float] = {}
        self.paths: frozenset[str] = frozenset()

    def look(self) -> bool:
        """Whether the folders have changed."""
        services = self._logs.services
        shortages = services.shortages.all()
        if not shortages and not self._until_ms:
            return False
        now_ms = services.clock.machine.monotonic_ms()
        usable = {log_dir.path for log_dir in self._logs.usable_dirs}
        for path in usable.intersection(each.place for each in shortages if each.is_of_room):
            if path not in self._until_ms:
                self._hold_ms[path] = min(2 * self._hold_ms.get(path, HOLD_MS / 2), LONGEST_HOLD_MS)
            self._until_ms[path] = now_ms + self._hold_ms[path]
        self._until_ms = {path: end_ms for path, end_ms in self._until_ms.items() if end_ms > now_ms and path in usable}
        former, self.paths = self.paths, frozenset(self._until_ms)
        for path in sorted((former - self.paths) & usable):
            logger.warning("replicas return to a folder that has room again", path=path)
        return self.paths != former
