"""The folders of `log.dirs` without room, whose replicas other brokers are to lead.

Theory of operation. A leader that cannot write refuses its clients until somebody makes room, though other brokers have
all that it has. So while a folder lacks room the controller is told that the replicas in it are lost
(`directory_assignments`), as far as another one is in sync: it elects another leader, and takes this node out of the
ISR, so that acks=all does not wait for it either. A lack of descriptors gives nothing away: connections use them up,
and clients would take theirs to the next leader, and the next. A replica that is lost is not fetched: it would be in
sync again without a byte of room as long as nothing is written. What no other broker has in sync stays as it is: it can
be read here, and waits for room. Some time after the last shortage the controller is told the folders again, the
replicas follow, and may lead once they are in sync. Where a folder of Kafka's has no room, the folder fails, and with
the last folder the broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from storage.folders.log_manager import LogManager

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
