"""Where blocking disk work is done: in a few threads, whose results come back to the loop.

Work that may hang goes to a lane of its own, with its own threads, so that no other work waits for it. Who asks remote
storage bounds what is asked at once by settings, so such a lane has as many threads as that may be.

The loop goes on while work runs, so work is given values that nobody changes: of a dictionary, list or set that belongs
to an object of the loop, a copy made on the loop. `tests/doubles/workers.py` checks this wherever tests run work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

T = TypeVar("T")

REMOTE = "remote "
"""What the names of lanes to remote storage begin with."""

MOST_REMOTE_THREADS = 100


def folder_lane(kind: str, log_folder: str) -> str:
    """The name of the lane for one kind of work on the folder of `log.dirs` that a log's folder lies in."""
    return f"{kind} {log_folder.rpartition('/')[0]}"


class Workers(Protocol):
    """Runs blocking work off the loop; its outcome is delivered on the loop."""

    def submit(self, work: Callable[[], T], done: Callable[[T], None], failed: Callable[[Exception], object]) -> None:
        """Run `work` elsewhere, then `done` with its result or `failed` with what it raised, on the loop."""

    async def call(self, work: Callable[[], T]) -> T:
        """The result of `work`, or what it raised."""

    @property
    def is_busy(self) -> bool:
        """Whether any work is running, or waits for a thread."""

    def lane(self, name: str) -> Workers:
        """The workers of that name, always the same ones; work in one lane never waits for work in another."""


class OnTheLoop:
    """Runs work on the loop, in turns of its own: for what waits for no device, where a thread costs more than that."""

    is_busy = False

    def submit(self, work: Callable[[], T], done: Callable[[T], None], failed: Callable[[Exception], object]) -> None:
        _deliver(asyncio.ensure_future(self.call(work)), done, failed)

    async def call(self, work: Callable[[], T]) -> T:
        return work()

    def lane(self, _name: str) -> Workers:
        return self


def _deliver(running: asyncio.Future[T], done: Callable[[T], None], failed: Callable[[Exception], object]) -> None:
    """Call `done` or `failed` with the outcome."""

    def finish(future: asyncio.Future[T]) -> None:
        error = future.exception()
        if error is None:
            done(future.result())
        elif isinstance(error, Exception):
            failed(error)
        else:
            raise error

    running.add_done_callback(finish)


class ThreadWorkers:
    """Small thread pools for one event loop; a thread is started when no idle one can take new work.

    `on_the_loop` has the beginnings of the names of lanes that have no threads.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        threads: int = 4,
        name: str = "storage",
        on_the_loop: tuple[str, ...] = (),
    ) -> None:
        self._loop = loop
        self._on_the_loop = on_the_loop
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._lanes: dict[str, ThreadWorkers] = {}
        self._running: set[Future[Any]] = set()

    def submit(self, work: Callable[[], T], done: Callable[[T], None], failed: Callable[[Exception], object]) -> None:
        _deliver(self._start(work), done, failed)

    async def call(self, work: Callable[[], T]) -> T:
        return await self._start(work)

    def _start(self, work: Callable[[], T]) -> asyncio.Future[T]:
        running = self._pool.submit(work)
        self._running.add(running)
        running.add_done_callback(self._running.discard)
        return asyncio.wrap_future(running, loop=self._loop)

    @property
    def is_busy(self) -> bool:
        return bool(self._running) or any(lane.is_busy for lane in self._lanes.values())

    def lane(self, name: str) -> Workers:
        if self._on_the_loop and name.startswith(self._on_the_loop):
            return OnTheLoop()
        found = self._lanes.get(name)
        if found is None:
            threads = MOST_REMOTE_THREADS if name.startswith(REMOTE) else self._threads
            found = self._lanes[name] = ThreadWorkers(self._loop, threads, name, self._on_the_loop)
        return found

    def close(self) -> None:
        """Wait for running work, and take no more."""
        self._pool.shutdown()
        for lane in self._lanes.values():
            lane.close()
