"""A metadata log in memory whose writes become durable, or are refused, when a test says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from controller.quorum.metadata_batches import MetadataLogError, NoRoomError


class MemoryMetadataLog:
    """`batches` has what was appended and not refused; with `waits`, it is durable once `sync` was called."""

    epoch = 1
    timestamp = 0

    def __init__(self, *, waits: bool = False) -> None:
        self.on_refused: Callable[[NoRoomError], None] = lambda _: None
        self.batches: list[Sequence[Any]] = []
        self.failure: str | None = None
        self._waits = waits
        self._durable = 0
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []

    @property
    def next_offset(self) -> int:
        return sum(map(len, self.batches))

    @property
    def durable_end(self) -> int:
        return sum(map(len, self.batches[: self._durable]))

    def append(self, records: Sequence[Any]) -> int:
        if self.failure is not None:
            raise MetadataLogError(self.failure)
        self.batches.append(records)
        if not self._waits:
            self._durable = len(self.batches)
        return self.next_offset - 1

    async def durable(self, offset: int) -> None:
        if offset < self.durable_end:
            return
        if self.failure is not None:
            raise MetadataLogError(self.failure)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((offset, done))
        await done

    def sync(self, count: int | None = None) -> None:
        """Everything appended, or so many batches of it, is durable."""
        self._durable = len(self.batches) if count is None else count
        waiters, self._waiters = self._waiters, []
        for offset, done in waiters:
            if offset < self.durable_end:
                done.set_result(None)
            else:
                self._waiters.append((offset, done))

    def refuse(self) -> None:
        """There is no room for what is not durable."""
        del self.batches[self._durable :]
        error = NoRoomError("no room")
        self.on_refused(error)
        self._fail(error)

    def fail(self) -> None:
        """The device has failed."""
        self.failure = "failed"
        self._fail(MetadataLogError("failed"))

    def _fail(self, error: MetadataLogError) -> None:
        waiters, self._waiters = self._waiters, []
        for _, done in waiters:
            done.set_exception(error)
