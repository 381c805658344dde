"""Work of a node that goes on behind its requests: jobs that run periodically, and the last steps of a stop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from enum import Enum, auto
from typing import Any, TypeVar

import structlog

from protocol.errors import KafkaError
from storage.files import is_transient
from timing.clock import Clock, Timer

logger = structlog.get_logger(__name__)

NEVER_MS = 2**40
"""Periods of this length or more mean never (Kafka's default for the flush scheduler is the largest int64)."""

T = TypeVar("T")
CHECKS = 10
"""The number of checks for progress within `patience_ms`."""
PATIENCE_MS = 30_000
"""A stop that makes no progress for this long is given up; the next start recovers the logs."""


class Periodic:
    """Runs jobs, each with a fixed pause between its end and its next start. A failed job is logged and runs again."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._timers: dict[str, Timer] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._stopped = False

    def every(
        self, pause_ms: float, name: str, job: Callable[[], Awaitable[None]], *, first_ms: float | None = None
    ) -> None:
        """Run `job` after `first_ms` (default `pause_ms`), and then `pause_ms` after each end."""
        if self._stopped or pause_ms >= NEVER_MS:
            return

        def begin() -> None:
            task = asyncio.ensure_future(self._once(name, job))
            self._running.add(task)
            task.add_done_callback(ended)

        def ended(task: asyncio.Task[None]) -> None:
            self._running.discard(task)
            self.every(pause_ms, name, job)

        delay_ms = self._clock.pause_ms(pause_ms) if first_ms is None else first_ms
        self._timers[name] = self._clock.call_later(delay_ms, begin)

    async def _once(self, name: str, job: Callable[[], Awaitable[None]]) -> None:
        try:
            await job()
        except Exception as error:
            if is_transient(error):  # lack of room is no bug
                logger.error("periodic job failed", job=name, error=str(error))
            else:
                logger.exception("periodic job failed", job=name)

    @property
    def is_busy(self) -> bool:
        """Whether a job is running."""
        return bool(self._running)

    async def stop(self) -> None:
        """Start no further job and wait for those that run."""
        self._stopped = True
        for timer in self._timers.values():
            timer.cancel()
        if self._running:
            await asyncio.wait(self._running)


class StuckError(Exception):
    """The work made no progress for `patience_ms`."""


async def unless_stuck(
    clock: Clock, work: Coroutine[Any, Any, T], progress: Callable[[], object], patience_ms: float
) -> T:
    """Do the work and return its result, however long it takes, as long as it makes progress.

    `progress()` returns a value that changes whenever part of the work is done. Raises StuckError if it is the same for
    `patience_ms`; the work is left running.
    """
    task = asyncio.ensure_future(work)
    seen, times = progress(), 0
    while not task.done():
        if times == CHECKS:
            raise StuckError
        pause = asyncio.ensure_future(clock.sleep(patience_ms / CHECKS))
        await asyncio.wait((task, pause), return_when=asyncio.FIRST_COMPLETED)
        pause.cancel()
        now = progress()
        seen, times = now, times + 1 if now == seen else 0
    return task.result()


class Stopped(Enum):
    """How a stop went. After STUCK, threads hang in a device and cannot be ended."""

    CLEAN = auto()
    UNCLEAN = auto()
    STUCK = auto()


async def end_work(
    clock: Clock, works: Mapping[str, Callable[[], Awaitable[None]]], progress: Callable[[], object]
) -> Stopped:
    """Do the works one after the other, whatever becomes of each. The names are for the log.

    `progress()` returns a value that changes whenever part of the current one is done.
    """
    current = ""

    async def all_works() -> Stopped:
        nonlocal current
        stopped = Stopped.CLEAN
        for name, work in works.items():
            current = name
            try:
                await work()
            except (OSError, KafkaError) as error:
                logger.error("data not flushed cleanly", of=name, error=str(error))
                stopped = Stopped.UNCLEAN
            except Exception:
                logger.exception("unexpected error during the stop", of=name)  # the next works are done nonetheless
                stopped = Stopped.UNCLEAN
        return stopped

    try:
        return await unless_stuck(clock, all_works(), lambda: (current, progress()), PATIENCE_MS)
    except StuckError:
        logger.error("disk not responding; giving up the clean shutdown", waiting_for=current)
        return Stopped.STUCK
