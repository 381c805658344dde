"""Waiting for work that a hung device may block for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from timing.clock import Clock

T = TypeVar("T")

CHECKS = 10
"""The number of checks for progress within `patience_ms`."""


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
