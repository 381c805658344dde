"""The controller of a standalone node: one decision after the other, each on the newest state.

Theory of operation. A decision is made at once, without an await, on an image that already has the records of all
decisions before it, durable or not. Its records go to the log in one batch. When the log is durable up to them, the
published image is brought up to there, everything that follows the image is told, and the response is given. A decision
without records waits for those before it, since it may speak of what they changed.

If records cannot be written, their decision and all later ones fail, and the newest image is the published one again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import structlog

from controller.decision import Decision
from metadata.delta import MetadataDelta
from metadata.image import MetadataImage
from protocol.errors import KafkaStorage

R = TypeVar("R")
logger = structlog.get_logger(__name__)

Publish = Callable[[MetadataDelta, MetadataImage], Awaitable[None]]
"""Tells all that follows the image of a change; the image is the one after it."""


class MetadataLogError(KafkaStorage):
    """The metadata log cannot be written; nothing of the decision was done."""


class MetadataLog(Protocol):
    """Where records are kept, batch by batch."""

    epoch: int
    end_offset: int
    """The offset that the next record gets."""

    def append(self, records: Sequence[Any]) -> int:
        """Append a batch; return the offset of its last record. Raises MetadataLogError."""

    async def durable(self, offset: int) -> None:
        """Return once everything up to `offset` is on the device.

        Raises MetadataLogError if that failed; then nothing from the first record on that is not durable is in the log.
        """

    def wall_ms(self) -> int:
        """The time of a batch that is appended now."""


@dataclass(slots=True)
class _Pending:
    """A decision whose records are in the log: they end at `offset`."""

    records: Sequence[Any]
    offset: int
    timestamp_ms: int
    done: asyncio.Future[None]


class LocalController:
    """`submit` is the only way to change what the image says.

    Attributes:
        image: the published image: all in it is durable, and whatever follows it has been told.
    """

    def __init__(self, log: MetadataLog, image: MetadataImage, publish: Publish) -> None:
        self.image = image
        self._newest = image
        self._log = log
        self._publish = publish
        self._pending: deque[_Pending] = deque()
        self._committing: asyncio.Task[None] | None = None

    @property
    def next_offset(self) -> int:
        """The offset of the first record of the next decision."""
        return self._log.end_offset

    async def submit(self, decide: Callable[[MetadataImage], Decision[R]]) -> R:
        """Make a decision and return its response, once it is durable and published.

        Raises what the decision raises, and MetadataLogError if its records cannot be written.
        """
        decision = decide(self._newest)
        if decision.records:
            await self._append(decision.records)
        elif self._pending:
            await asyncio.shield(self._pending[-1].done)
        return decision.response

    async def close(self) -> None:
        """Return once no decision is under way."""
        if self._committing is not None:
            await asyncio.wait([self._committing])

    def _append(self, records: Sequence[Any]) -> asyncio.Future[None]:
        timestamp_ms = self._log.wall_ms()
        delta = MetadataDelta(self._newest)
        delta.replay_all(records)
        offset = self._log.append(records)
        self._newest = delta.apply(offset, self._log.epoch, timestamp_ms)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pending.append(_Pending(records, offset, timestamp_ms, done))
        if self._committing is None:
            self._committing = asyncio.create_task(self._commit(), name="metadata-commit")
        return done

    async def _commit(self) -> None:
        """Publish what has become durable, until there is nothing left."""
        try:
            while self._pending:
                group = list(self._pending)
                try:
                    await self._log.durable(group[-1].offset)
                except MetadataLogError as error:
                    self._refuse(error)
                    return
                await self._publish_group(group)
        finally:
            self._committing = None

    async def _publish_group(self, group: Sequence[_Pending]) -> None:
        delta = MetadataDelta(self.image)
        for each in group:
            delta.replay_all(each.records)
        image = delta.apply(group[-1].offset, self._log.epoch, group[-1].timestamp_ms)
        try:
            await self._publish(delta, image)
        except Exception:  # what follows the image must not stop it, nor leave a caller without an answer
            logger.exception("unexpected error while metadata was published")
        self.image = image
        for each in group:
            self._pending.popleft()
            if not each.done.done():
                each.done.set_result(None)

    def _refuse(self, error: MetadataLogError) -> None:
        """Fail everything that is not durable."""
        self._newest = self.image
        while self._pending:
            done = self._pending.popleft().done
            if not done.done():
                done.set_exception(error)
                done.exception()  # nobody may wait for it any more
