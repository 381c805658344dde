"""Producer ids, from the blocks of 1,000 that the controller gives out (Kafka's `ProducerIdManager`, KIP-730)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from protocol.errors import CoordinatorLoadInProgress

logger = structlog.get_logger(__name__)

PREFETCH_BELOW = 100

Allocate = Callable[[], Awaitable[range]]
"""Asks the controller for the next block."""


class ProducerIds:
    """Hands out each id once, across all nodes and restarts: a block counts as used once it was given out."""

    def __init__(self, allocate: Allocate) -> None:
        self._allocate = allocate
        self._block = range(0)
        self._asking: asyncio.Task[range] | None = None

    @property
    def is_ready(self) -> bool:
        """Whether an id is available without waiting."""
        return bool(self._block)

    async def ready(self) -> None:
        """Return once an id is available. Raises MetadataLogError when no block can be had."""
        if not self._block:
            await asyncio.shield(self._asked())
            self._use_new_block()

    def take(self) -> int:
        """The next id. Raises CoordinatorLoadInProgress, as Kafka does until it has a block."""
        self._use_new_block()
        if not self._block:
            self._asked()
            raise CoordinatorLoadInProgress
        producer_id, self._block = self._block[0], self._block[1:]
        if len(self._block) < PREFETCH_BELOW:
            self._asked()
        return producer_id

    def _use_new_block(self) -> None:
        """Go on with the new block if the present one is used up."""
        asking = self._asking
        if self._block or asking is None or not asking.done() or _has_failed(asking):
            return
        self._block, self._asking = asking.result(), None

    def _asked(self) -> asyncio.Task[range]:
        if self._asking is None or _has_failed(self._asking):
            self._asking = asyncio.create_task(self._ask(), name="producer-id-block")
            self._asking.add_done_callback(_report_failure)
        return self._asking

    async def _ask(self) -> range:
        return await self._allocate()


def _has_failed(asking: asyncio.Task[range]) -> bool:
    return asking.done() and (asking.cancelled() or asking.exception() is not None)


def _report_failure(asking: asyncio.Task[range]) -> None:
    """Log a failure: nobody waits for a block that `take` asked for, so nobody else would report it."""
    if _has_failed(asking) and not asking.cancelled():
        logger.error("producer ids not allocated", error=str(asking.exception()))
