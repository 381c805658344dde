"""How far `__remote_log_metadata` is read, partition by partition, and who waits for that."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class Position:
    """Where one partition is read.

    Attributes:
        next_offset: the offset of the next record to read.
        end: what is to be read for all to be known that there was when the reading began; None if not asked for yet.
        known: done once all of that is read.
        restarts: how often it was read anew.
    """

    next_offset: int = 0
    end: int | None = None
    known: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    restarts: int = 0
    _waiting: list[tuple[int, asyncio.Future[None]]] = field(default_factory=list)

    def restart(self, start: int, end: int) -> None:
        """Read anew, from `start` on; all is known again at `end`."""
        self.next_offset, self.end = start, end
        self.restarts += 1
        if self.known.done():
            self.known = asyncio.get_running_loop().create_future()

    def move(self, offset: int) -> None:
        """Note that all before `offset` is read."""
        self.next_offset = offset
        if self.end is not None and offset >= self.end and not self.known.done():
            self.known.set_result(None)
        for wanted, future in self._waiting:
            if wanted < offset and not future.done():
                future.set_result(None)
        self._waiting = [one for one in self._waiting if not one[1].done()]

    def until_read(self, offset: int) -> asyncio.Future[None]:
        """Done once the record at `offset` is read."""
        future = asyncio.get_running_loop().create_future()
        if offset < self.next_offset:
            future.set_result(None)
        else:
            self._waiting.append((offset, future))
        return future
