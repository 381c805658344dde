"""What becomes of log lines: repeated warnings are left out, and the journal of systemd is told their priority."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

PERIOD_S = 60.0
LINES = 10
"""Warnings of one event about one subject within a period."""
MOST_REMEMBERED = 1_000
"""Events and subjects that are counted; with more, the one of which nothing was heard longest is forgotten."""
SUBJECTS = ("partition", "client", "listener", "group", "shard", "broker", "leader", "path", "place", "job", "metric")
"""Fields that say what a line is about."""

PRIORITIES = {"critical": 2, "error": 3, "warning": 4, "info": 6, "debug": 7}
"""Syslog's number of each level; an `exception` has the level error."""


@dataclass(slots=True)
class _Repeated:
    since_s: float
    count: int = 0


class RepeatedLines:
    """Lets so many warnings a minute pass of each event and subject; the next one to pass says how many did not."""

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        self._monotonic_s = monotonic_s
        self._known: dict[tuple[object, ...], _Repeated] = {}
        self._lock = threading.Lock()  # worker threads write lines too

    def __call__(self, logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        if method in ("debug", "info"):
            return event
        key = (event.get("event"), *(str(event.get(field)) for field in SUBJECTS))
        with self._lock:
            count, left_out = self._counted(key, self._monotonic_s())
        if count > LINES:
            raise structlog.DropEvent
        if count == LINES:
            event["further_lines"] = "left out for a minute"
        if left_out:
            event["left_out"] = left_out
        return event

    def _counted(self, key: tuple[object, ...], now_s: float) -> tuple[int, int]:
        """The lines of this period with this one, and how many of the period before were left out."""
        known, left_out = self._known.pop(key, _Repeated(now_s)), 0
        if now_s - known.since_s >= PERIOD_S:
            known, left_out = _Repeated(now_s), max(known.count - LINES, 0)
        known.count += 1
        self._known[key] = known
        if len(self._known) > MOST_REMEMBERED:
            del self._known[next(iter(self._known))]
        return known.count, left_out


def is_journal(file: TextIO, environment: Mapping[str, str]) -> bool:
    """Whether what is written to the file goes to the journal of systemd (`JOURNAL_STREAM`)."""
    try:
        status = os.fstat(file.fileno())
    except OSError:  # no file of the system
        return False
    return environment.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"


def with_priority(render: Processor) -> Processor:
    """The renderer, with the priority before each line as systemd reads it: `<4>` for a warning."""

    def prefixed(logger: WrappedLogger, method: str, event: EventDict) -> str:
        priority = PRIORITIES.get(event.get("level", ""), PRIORITIES["info"])
        text: Any = render(logger, method, event)
        return "\n".join(f"<{priority}>{line}" for line in str(text).split("\n"))

    return prefixed
