"""A history of what producers sent and were acknowledged, and what consumers were sent, and its check."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from odradek.control import Control, ControlUnavailableError, segment
from odradek.history_check import Problem, find_problems

MOST_NAMED = 20


class HistoryError(AssertionError):
    """A history has anomalies; `problems` has all of them."""

    def __init__(self, problems: list[Problem]) -> None:
        lines = [f"{one.kind}: {one.text}" for one in problems[:MOST_NAMED]]
        more = f"\nand {len(problems) - MOST_NAMED} more" if len(problems) > MOST_NAMED else ""
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
        """What happened so far, in order; `odradek.history_check` has the table of events."""
        if self._events is not None:
            return self._events
        found: list[dict[str, Any]] = self._control().get(self._path)["events"]
        return found

    def problems(self) -> list[Problem]:
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
