"""Assertions about records: each processed exactly once, and none lost, doubled or reordered.

`violations` compares two topics by what their records have in common. A `History` is recorded by the broker, and
checked by `odradek.history_check`.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from types import TracebackType
from typing import Any, Self

from odradek.control import Control, ControlUnavailableError, WaitTimeoutError, segment
from odradek.history_check import Anomaly, find_problems
from odradek.record import Record
from odradek.topic import Topic

MOST_NAMED = 5
WHOLE = ("key", "value")
PARTS = ("value.", "headers.")
WHAT_A_FIELD_IS = "expected key, value, value.FIELD (of a value that is JSON, or value.FIELD.PART), or headers.NAME"


def identity(field: str) -> Callable[[Record], Hashable]:
    """Return a function of records, by which they belong together: `key`, `value`, `value.order.id` or `headers.trace`.

    Raises ValueError for another field; the function does for a record without it.
    """
    if field in WHOLE:
        return lambda record: getattr(record, field)
    if not field.startswith(PARTS) or field.endswith("."):
        raise ValueError(f"key = {field!r}: {WHAT_A_FIELD_IS}")
    kind, _, rest = field.partition(".")
    if kind == "headers":
        return lambda record: record.headers.get(rest)
    return lambda record: _part(record, rest.split("."))


def _part(record: Record, names: Sequence[str]) -> Hashable:
    where = f"offset {record.offset} of {record.topic}-{record.partition}"
    try:
        part = record.json()
    except ValueError as error:
        raise ValueError(f"key = 'value.{'.'.join(names)}': the value at {where} is no JSON") from error
    for name in names:
        if not isinstance(part, dict) or name not in part:
            raise ValueError(f"key = 'value.{'.'.join(names)}': the value at {where} has no {name}")
        part = part[name]
    try:
        return part if isinstance(part, Hashable) else json.dumps(part, sort_keys=True)
    except RecursionError:
        raise ValueError(f"key = 'value.{'.'.join(names)}': the value at {where} is nested too deeply") from None


def violations(
    source: Iterable[Record], sink: Iterable[Record], identify: Callable[[Record], Hashable]
) -> tuple[list[str], bool]:
    """Say what is wrong, a sentence each, and whether records that come later may still mend all of it."""
    wanted = _by_identity(source, identify)
    made = _by_identity(sink, identify)
    missing = [f"{_shown(key)} is missing; in the source: {_places(wanted[key])}" for key in wanted if key not in made]
    foreign = [f"{_shown(key)} is not in the source: {_places(made[key])}" for key in made if key not in wanted]
    doubled: list[str] = []
    too_few: list[str] = []
    for key, records in made.items():
        count = len(wanted.get(key, records))
        if len(records) != count:
            several = doubled if len(records) > count else too_few
            several.append(f"{_shown(key)} is there {len(records)} times, not {count}: {_places(records)}")
    return [*missing, *too_few, *doubled, *foreign], not doubled and not foreign


def require_exactly_once(source: Topic, sink: Topic, identify: Callable[[Record], Hashable], timeout: float) -> None:
    """Raise WaitTimeoutError if the sink is not right within `timeout` seconds; for a function of the user's own."""
    deadline = time.monotonic() + timeout
    while True:
        made = sink.records()
        problems, may_mend = violations(source.records(), made, identify)
        if not problems:
            return
        left = deadline - time.monotonic()
        if not may_mend or left <= 0:
            raise WaitTimeoutError(summary(source.name, sink.name, problems))
        with contextlib.suppress(WaitTimeoutError):
            sink.wait(len(made) + 1, timeout=left)


def summary(source: str, sink: str, problems: Sequence[str]) -> str:
    """The text of a failure."""
    lines = [f"{sink} does not have each record of {source} exactly once:"]
    lines += [f"  {problem}" for problem in problems[:MOST_NAMED]]
    if len(problems) > MOST_NAMED:
        lines.append(f"  and {len(problems) - MOST_NAMED} more")
    return "\n".join(lines)


def _by_identity(records: Iterable[Record], identify: Callable[[Record], Hashable]) -> dict[Hashable, list[Record]]:
    found: dict[Hashable, list[Record]] = {}
    for record in records:
        found.setdefault(identify(record), []).append(record)
    return found


def _shown(identity: Hashable) -> str:
    if isinstance(identity, bytes):
        return identity.decode(errors="backslashreplace") or "the empty one"
    return "null" if identity is None else str(identity)


def _places(records: Sequence[Record]) -> str:
    places = [f"{record.topic}-{record.partition} at {record.offset}" for record in records[:MOST_NAMED]]
    return ", ".join(places) + (" ..." if len(records) > MOST_NAMED else "")


MOST_PROBLEMS = 20


class HistoryError(AssertionError):
    """A history has anomalies; `problems` has all of them."""

    def __init__(self, problems: list[Anomaly]) -> None:
        lines = [f"{problem.kind}: {problem.text}" for problem in problems[:MOST_PROBLEMS]]
        more = f"\nand {len(problems) - MOST_PROBLEMS} more" if len(problems) > MOST_PROBLEMS else ""
        super().__init__("\n".join(lines) + more)
        self.problems = problems


class History:
    """Recorded by the broker from `Broker.history()` on, over its crashes and restarts, until the `with` block ends."""

    def __init__(self, control: Callable[[], Control]) -> None:
        """Begin the recording."""
        self._control = control
        self._events: list[dict[str, Any]] | None = None
        self.id: str = control().post("/histories")["history"]

    def __repr__(self) -> str:
        return f"History({self.id!r})"

    def events(self) -> list[dict[str, Any]]:
        """List what happened so far, in order; `odradek.history_check` has the table of events."""
        if self._events is not None:
            return self._events
        found: list[dict[str, Any]] = self._control().get(self._path)["events"]
        return found

    def problems(self) -> list[Anomaly]:
        """The anomalies so far: records lost, doubled, reordered, or read though aborted."""
        return find_problems(self.events())

    def check(self) -> None:
        """Raise HistoryError, an AssertionError that names them, if there are anomalies."""
        problems = self.problems()
        if problems:
            raise HistoryError(problems)

    def close(self) -> None:
        """End the recording; what was recorded can still be checked. Raises ControlError."""
        if self._events is None:
            self._events = self.events()
            self._control().delete(self._path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the recording. If the broker is not running, it can be checked once it is again."""
        with contextlib.suppress(ControlUnavailableError):
            self.close()

    @property
    def _path(self) -> str:
        return f"/histories/{segment(self.id)}"
