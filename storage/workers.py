"""Where blocking disk work goes: a few threads, whose results come back to the loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

T = TypeVar("T")


class Workers(Protocol):
    """Runs blocking work away from the loop; what happens next happens on the loop."""

    def submit(self, work: Callable[[], T], done: Callable[[T], None], failed: Callable[[Exception], object]) -> None:
        """Run `work` elsewhere, then `done` with its result or `failed` with what it raised, on the loop."""

    async def call(self, work: Callable[[], T]) -> T:
        """The result of `work`, or what it raised."""


class ThreadWorkers:
    """A small thread pool beside one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, threads: int = 4) -> None:
        self._loop = loop
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="storage")

    def submit(self, work: Callable[[], T], done: Callable[[T], None], failed: Callable[[Exception], object]) -> None:
        def finish(future: "asyncio.Future[T]") -> None:
            error = future.exception()
            if error is None:
                done(future.result())
            elif isinstance(error, Exception):
                failed(error)
            else:
                raise error

        self._loop.run_in_executor(self._pool, work).add_done_callback(finish)

    async def call(self, work: Callable[[], T]) -> T:
        return await self._loop.run_in_executor(self._pool, work)

    def close(self) -> None:
        """Wait for what runs, take nothing more."""
        self._pool.shutdown()


class QueuedWorkers:
    """For tests without threads: submitted work waits until `run_all`; `call` runs at once."""

    def __init__(self) -> None:
        self._queue: list[Callable[[], None]] = []

    def submit(self, work: Callable[[], T], done: Callable[[T], None], failed: Callable[[Exception], object]) -> None:
        def run() -> None:
            try:
                result = work()
            except Exception as error:  # noqa: BLE001 - handed on, as the thread pool does
                failed(error)
            else:
                done(result)

        self._queue.append(run)

    async def call(self, work: Callable[[], T]) -> T:
        return work()

    def run_all(self) -> None:
        """Run everything queued, and what that queues."""
        while self._queue:
            self._queue.pop(0)()

    def drop_all(self) -> None:
        """Forget what is queued, as a crash does."""
        self._queue.clear()


class LoopWorkers:
    """For tests in virtual time: work runs on the loop itself, at its next turn."""

    def submit(self, work: Callable[[], T], done: Callable[[T], None], failed: Callable[[Exception], object]) -> None:
        def run() -> None:
            try:
                result = work()
            except Exception as error:  # noqa: BLE001 - handed on, as the thread pool does
                failed(error)
            else:
                done(result)

        asyncio.get_running_loop().call_soon(run)

    async def call(self, work: Callable[[], T]) -> T:
        await asyncio.sleep(0)
        return work()
