"""Time and threads of a node that may die: what it had planned is then never done."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Self, TypeVar

from tests.doubles.clock import ManualClock
from timing.clock import Clock, Timer

T = TypeVar("T")


class Life:
    """Ends once."""

    def __init__(self) -> None:
        self.is_over = False


class NodeClock:
    """The cluster's virtual time, as a node sees it while it lives."""

    def __init__(self, clock: ManualClock, life: Life) -> None:
        self._clock = clock
        self._life = life

    def monotonic_ms(self) -> float:
        return self._clock.monotonic_ms()

    def wall_ms(self) -> int:
        return self._clock.wall_ms()

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        return self._clock.call_later(delay_ms, lambda: None if self._life.is_over else callback())

    async def sleep(self, delay_ms: float) -> None:
        if delay_ms <= 0:
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self.call_later(delay_ms, lambda: None if woken.done() else woken.set_result(None))
        try:
            await woken
        finally:
            timer.cancel()

    def pause_ms(self, period_ms: float) -> float:
        return period_ms

    @property
    def machine(self) -> Clock:
        return self


class NodeWorkers:
    """Work of threads, done some turns of the loop later while the node lives."""

    def __init__(self, rng: random.Random, life: Life) -> None:
        self._rng = rng
        self._life = life

    def submit(self, work: Callable[[], T], done: Callable[[T], None], failed: Callable[[Exception], object]) -> None:
        def run() -> None:
            if self._life.is_over:
                return
            try:
                result = work()
            except Exception as error:  # noqa: BLE001 - handed on, as the thread pool does
                failed(error)
            else:
                done(result)

        self._later(self._rng.randrange(4), run)

    def _later(self, turns: int, run: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_soon(run if turns == 0 else lambda: self._later(turns - 1, run))

    async def call(self, work: Callable[[], T]) -> T:
        for _ in range(self._rng.randrange(1, 4)):
            await asyncio.sleep(0)
        if self._life.is_over:
            await asyncio.get_running_loop().create_future()
        return work()

    def lane(self, _name: str) -> Self:
        return self

    @property
    def is_busy(self) -> bool:
        return False
