"""The timers of a CoordinatorContext: they run as messages, and only if not cancelled or replaced."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from coordinator.runtime.outcome import Outcome
    from timing.wheel import TimerTask, TimingWheel

S = TypeVar("S")


class Timers(Generic[S]):
    """At most one timer per key (Kafka's CoordinatorTimer); scheduling a key again replaces its timer.

    A timer that was due while its key was cancelled or replaced does nothing.
    """

    def __init__(self, wheel: TimingWheel, tell: Callable[[Callable[[S], Outcome[Any] | None]], None]) -> None:
        self._wheel = wheel
        self._tell = tell
        self._tasks: dict[Hashable, TimerTask] = {}

    def schedule(self, key: Hashable, delay_ms: float, operation: Callable[[S], Outcome[Any] | None]) -> None:
        """Run `operation` as a message in `delay_ms`; if it returns None, there is nothing to write."""
        previous = self._tasks.pop(key, None)
        if previous is not None:
            previous.cancel()

        def run(state: S) -> Outcome[Any] | None:
            if self._tasks.get(key) is not task:
                return None
            del self._tasks[key]
            return operation(state)

        task = self._wheel.add(delay_ms, lambda: self._tell(run))
        self._tasks[key] = task

    def cancel(self, key: Hashable) -> None:
        """Cancel the timer of that key; harmless when there is none."""
        task = self._tasks.pop(key, None)
        if task is not None:
            task.cancel()

    def cancel_all(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        self._tasks.clear()

    def __contains__(self, key: Hashable) -> bool:
        return key in self._tasks

    def __len__(self) -> int:
        return len(self._tasks)

    def __iter__(self) -> Iterator[Hashable]:
        """The keys of the timers that run."""
        return iter(self._tasks)
