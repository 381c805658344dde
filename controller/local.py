"""The controller of a standalone node: one decision after the other, each on the newest state.

Theory of operation. A decision is made at once, without an await, on an image that already has the records of all
decisions before it, durable or not. Its records are appended to the metadata log. When they are durable, the published
image is brought up to there, everything that follows the image is notified, and the response is given. A decision
without records waits for those before it, since it may speak of what they changed.

If records are refused for want of room, or cannot be written, their decision and all later ones fail, and the newest
image is the published one again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import structlog

from controller.decision import Decision, Surroundings
from controller.quorum.metadata_batches import MetadataLogError, NoRoomError
from controller.transactions import TransactionalAppends
from metadata.delta import MetadataDelta
from metadata.image import MetadataImage

R = TypeVar("R")
logger = structlog.get_logger(__name__)

MOST_AT_ONCE = 1_000
"""Decisions that became durable together are published together while they have no more records than this: all that
follows the image is told in one turn of the loop."""

Publish = Callable[[MetadataDelta, MetadataImage], Awaitable[None]]
"""Tells all that follows the image of a change; the image is the one after it."""


class DecisionLog(Protocol):
    """The metadata log as the controller sees it; see `MetadataLog`."""

    epoch: int
    on_refused: Callable[[NoRoomError], None]

    @property
    def next_offset(self) -> int: ...

    @property
    def durable_end(self) -> int: ...

    @property
    def timestamp(self) -> int: ...

    def append(self, records: Sequence[Any]) -> int: ...

    def durable(self, offset: int) -> Awaitable[None]: ...


@dataclass(frozen=True, slots=True)
class _Pending:
    """A decision whose records are in the log, the last of them at `offset`; they made `image`, by `delta`."""

    records: Sequence[Any]
    offset: int
    delta: MetadataDelta
    image: MetadataImage
    done: asyncio.Future[None]


class LocalController:
    """`submit` is the only way to change what the image says.

    Attributes:
        image: the published image: all in it is durable, and whatever follows it has been notified.
        around: what decisions need besides the image.
        on_published: called after each change, with nothing under way.
        refusal: why no decision is made for now; None if they are.

    `in_transaction`: the log ends within a metadata transaction, which is to be aborted.
    """

    def __init__(
        self,
        log: DecisionLog,
        image: MetadataImage,
        publish: Publish,
        around: Surroundings,
        *,
        in_transaction: bool = False,
    ) -> None:
        self.image = image
        self.around = around
        self.on_published: Callable[[], None] = lambda: None
        self.refusal: NoRoomError | None = None
        self._newest = image
        self._durable = image
        self._log = log
        self._appends = TransactionalAppends(log, is_open=in_transaction)
        self._publish = publish
        self._pending: deque[_Pending] = deque()
        self._last: asyncio.Future[None] | None = None
        self._publishing: asyncio.Future[None] | None = None
        self._committing: asyncio.Task[None] | None = None
        log.on_refused = self._refuse

    @property
    def next_offset(self) -> int:
        """The offset of the first record of the next decision."""
        return self._log.next_offset

    async def submit(self, decide: Callable[[MetadataImage], Decision[R]]) -> R:
        """Make a decision and return its response, once it is durable and published.

        Raises what the decision raises, MetadataLogError if its records cannot be written, or `refusal`, and
        InvalidRequest if they are more than the log takes at once.
        """
        if self.refusal is not None:
            raise NoRoomError(self.refusal.message)
        return await self.begin(decide)

    async def begin(self, decide: Callable[[MetadataImage], Decision[R]]) -> R:
        """As `submit`, for what has to come before all other decisions: those may still be refused."""
        decision = decide(self._newest)
        if decision.records:
            self._append(decision.records)
        if self._last is not None and not self._last.done():
            await asyncio.shield(self._last)
        return decision.response

    async def close(self) -> None:
        """Return once no decision is under way."""
        if self._committing is not None:
            await asyncio.wait([self._committing])

    def _append(self, records: Sequence[Any]) -> None:
        delta = MetadataDelta(self._newest)
        delta.replay_all(records)
        offset = self._appends.append(records)
        self._newest = delta.apply(offset, self._log.epoch, self._log.timestamp)
        done = self._last = asyncio.get_running_loop().create_future()
        self._pending.append(_Pending(records, offset, delta, self._newest, done))
        if self._committing is None:
            self._committing = asyncio.create_task(self._commit(), name="metadata-commit")

    async def _commit(self) -> None:
        """Publish what has become durable, until there is nothing left."""
        try:
            while self._pending:
                group = self._next_group()
                try:
                    await self._log.durable(group[-1].offset)
                except NoRoomError:
                    continue  # `_refuse` was called
                except MetadataLogError as error:
                    self._refuse(error)
                    continue
                for _ in group:
                    self._pending.popleft()
                await self._publish_group(group)
        finally:
            self._committing = None

    def _next_group(self) -> list[_Pending]:
        """The first pending decision, and as many after it as may be published with it."""
        group: list[_Pending] = []
        count = 0
        for each in self._pending:
            count += len(each.records)
            if group and count > MOST_AT_ONCE:
                break
            group.append(each)
        return group

    async def _publish_group(self, group: Sequence[_Pending]) -> None:
        delta, image = group[0].delta, group[-1].image
        if len(group) > 1:
            delta = MetadataDelta(self.image)
            for each in group:
                delta.replay_all(each.records)
            image = delta.apply(image.offset, image.epoch, image.timestamp_ms)
        self._durable = image
        self._publishing = group[-1].done
        try:
            await self._publish(delta, image)
        except Exception:  # no caller may be left without an answer
            logger.exception("unexpected error while metadata was published")
        self.image = image
        for each in group:
            if not each.done.done():
                each.done.set_result(None)
        self.on_published()

    def _refuse(self, error: MetadataLogError) -> None:
        """Fail everything that is not durable. What is, but was not published yet, stays."""
        self._appends.refused()
        self._newest, self._last = self._durable, self._publishing
        pending, self._pending = self._pending, deque()
        for each in pending:
            if each.offset < self._log.durable_end:
                self._pending.append(each)
                self._newest, self._last = each.image, each.done
            elif not each.done.done():
                each.done.set_exception(error)
                each.done.exception()  # nobody may wait for it any more
