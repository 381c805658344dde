"""An answer that a later operation gives."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from protocol.errors import KafkaError

T = TypeVar("T")

Deliver = Callable[["Future[Any]", Any, "KafkaError | None"], None]


class Waiter(Generic[T]):
    """Made by `CoordinatorContext.waiter()` and returned as an outcome's reply; answered once, by any operation.

    The answer is held back until everything written by then is committed. Answering again is harmless: only the first
    answer counts, even against that of the context, which fails its waiters when it unloads.
    """

    __slots__ = ("_deliver", "answered", "future")

    def __init__(self, future: Future[T], deliver: Deliver) -> None:
        self.future = future
        self.answered = False
        self._deliver = deliver

    def answer(self, value: T) -> None:
        if not self.answered:
            self.answered = True
            self._deliver(self.future, value, None)

    def fail(self, error: KafkaError) -> None:
        if not self.answered:
            self.answered = True
            self._deliver(self.future, None, error)

    def fail_now(self, error: KafkaError) -> None:
        """Fail at once, for the context: the operation that made the waiter failed, so there is nothing to wait for."""
        self.answered = True
        if not self.future.done():
            self.future.set_exception(error)
