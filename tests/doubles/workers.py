"""Workers without threads: what is submitted runs when the test says so, or on the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Self, TypeVar

T = TypeVar("T")


class QueuedWorkers:
    """Without threads: submitted work waits until `run_all`; `call` runs at once."""

    def __init__(self) -> None:
        self._queue: list[Callable[[], None]] = []

    def submit(self, work: Callable[[], T], done: Callable[[T], None], failed: Callable[[Exception], object]) -> None:
        self._queue.append(partial(_run, work, done, failed))

    async def call(self, work: Callable[[], T]) -> T:
        return work()

    def lane(self, _name: str) -> Self:
        return self

    @property
    def waiting(self) -> int:
        """How much is queued."""
        return len(self._queue)

    def run_all(self) -> None:
        """Run everything queued, and what that queues."""
        while self._queue:
            self.run_next()

    def run_next(self) -> None:
        """Run what has been queued for longest."""
        self._queue.pop(0)()

    def drop_all(self) -> None:
        """Forget what is queued, as a crash does."""
        self._queue.clear()


class LoopWorkers:
    """In virtual time: work runs on the loop itself, at its next turn."""

    def submit(self, work: Callable[[], T], done: Callable[[T], None], failed: Callable[[Exception], object]) -> None:
        asyncio.get_running_loop().call_soon(_run, work, done, failed)

    async def call(self, work: Callable[[], T]) -> T:
        await asyncio.sleep(0)
        return work()

    def lane(self, _name: str) -> Self:
        return self


def _run(work: Callable[[], T], done: Callable[[T], None], failed: Callable[[Exception], object]) -> None:
    try:
        result = work()
    except Exception as error:  # noqa: BLE001 - handed on, as the thread pool does
        failed(error)
    else:
        done(result)
