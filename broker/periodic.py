"""Jobs that a node runs periodically."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from storage.files import is_transient
from timing.clock import Clock, Timer

logger = structlog.get_logger(__name__)

NEVER_MS = 2**40
"""Periods of this length or more mean never (Kafka's default for the flush scheduler is the largest int64)."""


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
