"""A lack of room or of file descriptors: said once, repeated now and then, and said when it is over."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass

import structlog

logger = structlog.get_logger(__name__)

REPEAT_MS = 60_000
"""How long a shortage goes on before the log mentions it again."""

QUIET_MS = 5_000
"""How long nothing has to fail before somebody looks whether a shortage is over."""

_FULL, _QUOTA = "no room is left on the device", "the disk quota is used up"
_DESCRIPTORS = "too many files are open"
CAUSES = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _QUOTA,
    errno.EMFILE: _DESCRIPTORS,
    errno.ENFILE: "too many files are open in the whole system",
}
ADVICE = {
    _FULL: "writes are refused until there is room: free some, or lower retention",
    _DESCRIPTORS: "raise the limit of open files (ulimit -n, LimitNOFILE), or have fewer partitions and connections",
}


@dataclass(slots=True)
class Shortage:
    """Something that fails for lack of room or descriptors in one place; times in monotonic ms."""

    place: str
    cause: str
    since_ms: float
    last_ms: float
    said_ms: float
    failures: int = 1

    def __str__(self) -> str:
        return f"{self.place}: {self.cause}"

    @property
    def is_of_room(self) -> bool:
        """Whether room is lacking, rather than descriptors, of which clients can take as many as they like."""
        return self.cause in (_FULL, _QUOTA)


class Shortages:
    """The shortages now, by place (a folder of `log.dirs`, or a name) and cause."""

    def __init__(self, monotonic_ms: Callable[[], float]) -> None:
        self._monotonic_ms = monotonic_ms
        self._active: dict[tuple[str, str], Shortage] = {}

    def note(self, place: str, error: Exception) -> None:
        """Note that something failed because of a shortage (`files.is_transient`); any thread."""
        number = error.errno if isinstance(error, OSError) else None
        cause = CAUSES.get(number or 0)
        if cause is None:
            return
        now_ms = self._monotonic_ms()
        found = self._active.get((place, cause))
        if found is None:
            self._active[place, cause] = Shortage(place, cause, now_ms, now_ms, now_ms)
            logger.error("out of resources", place=place, cause=cause, advice=ADVICE.get(cause), error=str(error))
            return
        found.failures += 1
        found.last_ms = now_ms
        if now_ms - found.said_ms >= REPEAT_MS:
            found.said_ms = now_ms
            logger.error("still out of resources", place=place, cause=cause, failures=found.failures)

    def all(self) -> list[Shortage]:
        return list(self._active.values())

    def quiet(self) -> list[Shortage]:
        """The shortages that nobody has met for a while: they may be over."""
        now_ms = self._monotonic_ms()
        return [shortage for shortage in self._active.values() if now_ms - shortage.last_ms >= QUIET_MS]

    def over(self, shortage: Shortage) -> None:
        """Note that a shortage has ended."""
        if self._active.pop((shortage.place, shortage.cause), None) is not None:
            seconds = round((self._monotonic_ms() - shortage.since_ms) / 1000, 1)
            logger.warning(
                "resources are back",
                place=shortage.place,
                cause=shortage.cause,
                failures=shortage.failures,
                seconds=seconds,
            )
