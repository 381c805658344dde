"""The last work of a node: steps that wait for devices, which may fail or not respond at all."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from enum import Enum, auto

import structlog

from broker.patience import StuckError, unless_stuck
from protocol.errors import KafkaError
from timing.clock import Clock

logger = structlog.get_logger(__name__)

PATIENCE_MS = 30_000
"""A stop that makes no progress for this long is given up; the next start recovers the logs."""


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
