"""Producer ids, from blocks of 1,000 that nodes claim in the metadata store (Kafka's `ProducerIdManager`, KIP-730)."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass

import structlog

from broker.metadata.store import MetadataStore, retrying
from protocol.errors import CoordinatorLoadInProgress

logger = structlog.get_logger(__name__)

KEY = "/producer-ids/next-block"
BLOCK_SIZE = 1000
PREFETCH_BELOW = 100


@dataclass(slots=True)
class _Block:
    next_id: int
    end: int

    @property
    def left(self) -> int:
        return self.end - self.next_id


class ProducerIds:
    """Hands out each id once, across all nodes and restarts: a block counts as used once it is claimed."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._block = _Block(0, 0)
        self._claiming: asyncio.Task[_Block] | None = None

    @property
    def is_ready(self) -> bool:
        """Whether an id is available without waiting."""
        return self._block.left > 0

    async def ready(self) -> None:
        """Return once an id is available.

        Raises MetadataStoreError, or VersionConflictError (see `retrying`), when no block can be claimed.
        """
        if not self._block.left:
            await asyncio.shield(self._claim_started())
            self._use_claimed()

    def take(self) -> int:
        """The next id of the block. Raises CoordinatorLoadInProgress, as Kafka does until it has claimed a block."""
        self._use_claimed()
        block = self._block
        if not block.left:
            self._claim_started()
            raise CoordinatorLoadInProgress
        producer_id = block.next_id
        block.next_id += 1
        if block.left < PREFETCH_BELOW:
            self._claim_started()
        return producer_id

    def _use_claimed(self) -> None:
        """Switch to the claimed block if the current one is used up."""
        claim = self._claiming
        if self._block.left or claim is None or not claim.done() or _has_failed(claim):
            return
        self._block, self._claiming = claim.result(), None

    def _claim_started(self) -> asyncio.Task[_Block]:
        if self._claiming is None or _has_failed(self._claiming):
            self._claiming = asyncio.create_task(retrying(self._claim), name="producer-id-block")
            self._claiming.add_done_callback(_report_failure)
        return self._claiming

    async def _claim(self) -> _Block:
        current = await self._store.get(KEY)
        first = 0 if current is None else int(json.loads(current.value)["first"])
        version = 0 if current is None else current.version
        await self._store.commit({KEY: version}, {KEY: json.dumps({"first": first + BLOCK_SIZE}).encode()})
        return _Block(first, first + BLOCK_SIZE)


def _has_failed(claim: asyncio.Task[_Block]) -> bool:
    return claim.done() and (claim.cancelled() or claim.exception() is not None)


def _report_failure(claim: asyncio.Task[_Block]) -> None:
    """Log a failed claim: nobody waits for one that `take` began, so nobody else would report it."""
    if _has_failed(claim) and not claim.cancelled():
        logger.error("producer ids not claimed", error=str(claim.exception()))
