"""The broker's time and its whole state in a test's hands: move and freeze its clock, keep and restore snapshots."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any

from odradek.control import Control, in_thread

UNITS = ("seconds", "minutes", "hours", "days")


class Clock:
    """The time of one broker. It runs with the machine's until it is moved, set or frozen.

    Sessions, rebalances, transaction timeouts, the expiry of offsets and transactional ids, retention, compaction,
    quotas and the timestamps of the log follow it. Connections do not: none is idle for a year because time moved. Nor
    do clients: their heartbeats come in real time, so a jump of more than their session timeout expires them.
    """

    def __init__(self, control: Callable[[], Control]) -> None:
        """`control` gives the client of the broker's control interface, which changes with a restart."""
        self._control = control

    def now(self) -> datetime:
        """The broker's time of day, in UTC."""
        return _time(self._control().get("/clock"))

    @property
    def frozen(self) -> bool:
        """Whether time stands still."""
        return bool(self._control().get("/clock")["frozen"])

    def advance(
        self,
        delta: timedelta | None = None,
        *,
        seconds: float = 0,
        minutes: float = 0,
        hours: float = 0,
        days: float = 0,
    ) -> datetime:
        """Move time forward by the sum of these, and return the new time once all that was due has run, in its order.

        Also while time is frozen. Raises TypeError and ValueError for what is no time, or a negative one.
        """
        given = dict(zip(UNITS, (seconds, minutes, hours, days), strict=True))
        for unit, value in given.items():
            _check_number(unit, value)
        if delta is not None:
            if not isinstance(delta, timedelta):
                raise TypeError(f"delta = {delta!r}: expected a timedelta, or seconds=, minutes=, hours= or days=")
            if delta < timedelta():
                raise ValueError(f"delta = {delta!r}: expected one that is not negative")
            given["seconds"] += delta.total_seconds()
        if not any(given.values()) and delta is None:
            raise ValueError("advance: expected a timedelta, or seconds=, minutes=, hours= or days=")
        asked = {unit: value for unit, value in given.items() if value} or {"seconds": 0}
        return _time(self._control().post("/clock/advance", **asked))

    advance_async = in_thread(advance)

    def set(self, time: datetime | float) -> datetime:
        """Set the time of day: a datetime, or seconds since 1970; return it.

        Forward, time moves as by `advance`. Back, only what is written down changes: what was to happen in ten minutes
        still does. A datetime without a time zone is in UTC.
        """
        if isinstance(time, datetime):
            time = (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
        elif isinstance(time, bool) or not isinstance(time, int | float):
            raise TypeError(f"time = {time!r}: expected a datetime, or seconds since 1970")
        return _time(self._control().post("/clock/set", epoch=time))

    set_async = in_thread(set)

    def freeze(self) -> Frozen:
        """Let time stand still, until `resume` or, as `with broker.clock.freeze():`, the end of the block."""
        self._control().post("/clock/freeze")
        return Frozen(self)

    def resume(self) -> None:
        """Let time go on from where it stands."""
        self._control().post("/clock/resume")

    def reset(self) -> None:
        """Go on with the machine's time of day; what was to happen in ten minutes still does."""
        self._control().post("/clock/reset")


class Frozen:
    """A clock that stands still; as a context manager it goes on at the end."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def __enter__(self) -> Clock:
        return self._clock

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._clock.resume()


def _check_number(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} = {value!r}: expected a number")
    if not 0 <= value < float("inf"):
        raise ValueError(f"{name} = {value!r}: expected a number that is not negative")


def _time(answer: dict[str, Any]) -> datetime:
    return datetime.fromtimestamp(answer["now"], UTC)


MANIFEST = "snapshot.json"
"""The file that each snapshot has."""


@dataclass(frozen=True)
class Snapshot:
    """The state of a broker at one moment: topics and records, groups and offsets, transactions, configurations.

    Attributes:
        path: its folder, where the broker runs.
        bytes: the size of its files; most of them share their blocks with the broker's.
        taken_ms: when it was taken, ms since 1970.
    """

    path: str
    bytes: int
    taken_ms: int
    _control: Callable[[], Control] = field(repr=False, compare=False)

    @classmethod
    def of(cls, answer: dict[str, Any], control: Callable[[], Control]) -> Snapshot:
        """Make one of an answer of the control interface."""
        return cls(answer["path"], answer["bytes"], answer["taken_ms"], control)

    def __fspath__(self) -> str:
        return self.path

    def delete(self) -> None:
        """Remove its files; a broker that was restored from it keeps what it has."""
        self._control().delete("/snapshots", path=self.path)


def path_of(snapshot: Snapshot | str | os.PathLike[str]) -> str:
    """The absolute path of a snapshot. Raises TypeError."""
    if not isinstance(snapshot, Snapshot | str | os.PathLike):
        raise TypeError(f"snapshot = {snapshot!r}: expected what snapshot() returned, or a path")
    return os.path.abspath(os.fspath(snapshot))
