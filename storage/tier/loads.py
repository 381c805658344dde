"""The loads of a node's tiered logs: those under way, and those that are over and wait to be taken.

Whoever asks for one takes it soon, or has gone. So only some are kept that are over, over all logs: each may hold a
chunk of a segment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

from protocol.errors import UnknownServerError

T = TypeVar("T")

MOST_LOADED = 16
"""The most that are over and not taken when another one begins."""


class Loads(Generic[T]):
    """By log and offset."""

    def __init__(self) -> None:
        self._tasks: dict[tuple[Hashable, int], asyncio.Task[T]] = {}
        self._idle: set[asyncio.Task[T]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def get(
        self, log: Hashable, offset: int, work: Callable[[int], Coroutine[Any, Any, T]], over: Callable[[], None]
    ) -> asyncio.Task[T]:
        """The load of what is at an offset; if there is none, `work(offset)`, and `over` is called at its end."""
        known = self._tasks.get((log, offset))
        if known is not None:
            return known
        done = [key for key, one in self._tasks.items() if one.done()]
        for key in done[: max(len(done) - MOST_LOADED, 0)]:
            del self._tasks[key]
        task = self._tasks[log, offset] = asyncio.ensure_future(work(offset))

        def ended(_: asyncio.Task[T]) -> None:
            if not task.cancelled():
                task.exception()  # the reader gets it, if there still is one
            over()

        task.add_done_callback(ended)
        return task

    def take(self, log: Hashable, offset: int, load: asyncio.Task[T]) -> T:
        """What a load has found; it is not kept any longer. Raises KafkaError."""
        if self._tasks.get((log, offset)) is load:
            del self._tasks[log, offset]
        if load.cancelled():
            raise UnknownServerError("The read from remote storage was given up.")
        return load.result()

    def drop_idle(self) -> None:
        """Forget what was over at the last call and nobody has taken since: its reader is gone."""
        self._tasks = {key: one for key, one in self._tasks.items() if one not in self._idle}
        self._idle = {one for one in self._tasks.values() if one.done()}

    def end(self, log: Hashable) -> None:
        """Give up those of a log."""
        for key in [key for key in self._tasks if key[0] is log]:
            self._tasks.pop(key).cancel()
