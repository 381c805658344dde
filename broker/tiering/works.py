"""Works of partitions, some at once: one partition that takes hours keeps none of the others from its turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Works(Generic[K]):
    """`work(key)` for each key that is added, at most `most()` at once, and one of each key; `start` starts a task.

    What waits does so in order. A key that waits already, or is at work, is not added once more.
    """

    def __init__(
        self,
        work: Callable[[K], Awaitable[None]],
        most: Callable[[], int],
        start: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self._work = work
        self._most = most
        self._start = start
        self._waiting: dict[K, None] = {}
        self._at_work: set[K] = set()

    def add(self, keys: Iterable[K]) -> None:
        self._waiting |= dict.fromkeys(key for key in keys if key not in self._at_work)
        while self._waiting and len(self._at_work) < self._most():
            key = next(iter(self._waiting))
            del self._waiting[key]
            self._at_work.add(key)
            self._start(self._do(key))

    async def _do(self, key: K) -> None:
        try:
            await self._work(key)
        finally:
            self._at_work.discard(key)
            self.add(())
