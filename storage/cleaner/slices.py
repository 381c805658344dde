"""Long work that must not delay the loop: slices in a worker thread, with pauses between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from storage.cleaner.steps import Steps
from storage.workers import Workers
from timing.clock import Clock

T = TypeVar("T")

SLICE_MS = 2.0
PAUSE_MS = 1.0
IDLE_TURN_MS = 0.2
LONGEST_PAUSE_MS = 200.0
STEPS_A_SLICE = 1000


class Slices:
    """Runs steps; during a slice the loop waits at most `SLICE_MS` at a time for the interpreter.

    `max_bytes_per_second` limits what the steps read and write (`log.cleaner.io.max.bytes.per.second`).
    """

    def __init__(self, clock: Clock, workers: Workers, max_bytes_per_second: float) -> None:
        self._clock = clock
        self._workers = workers
        self._rate = max_bytes_per_second
        self._began_ms = clock.monotonic_ms()
        self._bytes = 0

    async def run(self, steps: Steps[T], check: Callable[[], None]) -> T:
        """The steps' result. `check` is called before each slice; if it raises, the work ends."""
        result: list[T] = []

        def run_slice() -> bool:
            """Whether there is more to do."""
            end = self._clock.monotonic_ms() + SLICE_MS
            try:
                for _ in range(STEPS_A_SLICE):
                    self._bytes += next(steps)
                    if self._clock.monotonic_ms() >= end:
                        break
            except StopIteration as done:
                result.append(done.value)
                return False
            return True

        try:
            check()
            more = True
            while more:
                more = await self._workers.call(run_slice)
                if more:
                    await self._pause()
                check()
                while (ahead_ms := self._ahead_ms()) >= PAUSE_MS:
                    await self._clock.sleep(min(ahead_ms, LONGEST_PAUSE_MS))
                    check()
        finally:
            steps.close()
        return result[0]

    async def _pause(self) -> None:
        """Give the loop a turn, and a longer one if it turns out to have other work."""
        began_ms = self._clock.monotonic_ms()
        await self._clock.sleep(0)
        if self._clock.monotonic_ms() - began_ms > IDLE_TURN_MS:
            await self._clock.sleep(PAUSE_MS)

    def _ahead_ms(self) -> float:
        """How long to wait in order to keep to the rate."""
        return self._bytes / self._rate * 1000 - (self._clock.monotonic_ms() - self._began_ms)
