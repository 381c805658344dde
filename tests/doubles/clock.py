"""Virtual time, and the turns of the loop that take none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from heapq import heappop, heappush

from timing.clock import Clock, Timer


class _ManualTimer:
    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class ManualClock:
    """Virtual time: it moves only when told, and everything due runs in the order of deadlines.

    An exception raised by a callback leaves `advance` or `run` at that callback's instant; what else is due runs with
    the next call.
    """

    def __init__(self, start_wall_ms: int = 1_700_000_000_000) -> None:
        self._start_wall_ms = start_wall_ms
        self._now_ms = 0.0
        self._scheduled = 0
        self._heap: list[tuple[float, int, _ManualTimer]] = []

    def monotonic_ms(self) -> float:
        return self._now_ms

    def wall_ms(self) -> int:
        return self._start_wall_ms + int(self._now_ms)

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        timer = _ManualTimer(callback)
        self._scheduled += 1
        heappush(self._heap, (self._now_ms + max(delay_ms, 0.0), self._scheduled, timer))
        return timer

    async def sleep(self, delay_ms: float) -> None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def wake() -> None:
            if not woken.done():
                woken.set_result(None)

        timer = self.call_later(delay_ms, wake)
        try:
            await woken
        finally:
            timer.cancel()

    def pause_ms(self, period_ms: float) -> float:
        return period_ms

    @property
    def machine(self) -> Clock:
        return self

    def next_deadline_ms(self) -> float | None:
        """The monotonic instant of the earliest pending call, or None."""
        while self._heap and self._heap[0][2].callback is None:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def drop_all(self) -> None:
        """Forget what is due, as a crash does."""
        self._heap.clear()

    def advance(self, ms: float) -> None:
        """Move time by `ms`, running what is due, including what those calls schedule within the window.

        Tasks of the event loop do not run in between: see `run`.
        """
        end = self._now_ms + ms
        while self._step(end):
            pass
        self._now_ms = end

    async def run(self, ms: float) -> None:
        """Move time by `ms` as `advance` does, letting the loop's ready tasks finish their turn before each step.

        Work in other threads is not waited for.
        """
        end = self._now_ms + ms
        await settle()
        while self._step(end):
            await settle()
        self._now_ms = end

    def stall(self, ms: float) -> None:
        """Move time by `ms` with the loop held up: what falls due runs late, with the next `advance` or `run`."""
        self._now_ms += ms

    def _step(self, end: float) -> bool:
        """Run the earliest pending call if it is due by `end`."""
        deadline = self.next_deadline_ms()
        if deadline is None or deadline > end:
            return False
        timer = heappop(self._heap)[2]
        self._now_ms = max(self._now_ms, deadline)
        callback, timer.callback = timer.callback, None
        assert callback is not None, "next_deadline_ms() drops cancelled timers"
        callback()
        return True


_SETTLE_TURNS = 1000


async def settle() -> None:
    """Give the loop turns until no callback is ready to run, without any time passing.

    asyncio shows only by its private ready queue whether any is left; on a loop that has none to look at (uvloop), and
    for tasks that never stop yielding, a fixed number of turns is given.
    """
    ready = getattr(asyncio.get_running_loop(), "_ready", None)
    for _ in range(_SETTLE_TURNS):
        await asyncio.sleep(0)
        if ready is not None and not ready:
            return
