"""Answers that are usually available at once, and then need no task."""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from protocol.errors import KafkaError

K = TypeVar("K")
T = TypeVar("T")
R = TypeVar("R")


class Later(Generic[T, R]):
    """What `then` makes of a future's result. It can be awaited; dispatch uses its parts, which needs no task."""

    __slots__ = ("future", "then")

    def __init__(self, future: Future[T], then: Callable[[T], R]) -> None:
        self.future = future
        self.then = then

    def __await__(self) -> Generator[Any, None, R]:
        return self.then((yield from self.future))


def when_done(future: Future[T], then: Callable[[T], R]) -> R | Later[T, R]:
    """What `then` makes of the result: at once if the future is done, else later. Raises what the future raises."""
    return then(future.result()) if future.done() else Later(future, then)


def when_all_settled(futures: Sequence[Future[T]], then: Callable[[list[T | KafkaError]], R]) -> R | Awaitable[R]:
    """What `then` makes of the results and KafkaErrors: at once if all are done. Raises any other exception."""
    if all(future.done() for future in futures):
        return then([_result_or_error(future) for future in futures])
    return _all_later(futures, then)


def ask_each(
    keys: Iterable[K], ask: Callable[[K], Future[T]], then: Callable[[Mapping[K, T | KafkaError]], R]
) -> R | Awaitable[R]:
    """As `when_all_settled`, with the results by key; a key that is named twice is asked only once."""
    distinct = list(dict.fromkeys(keys))
    return when_all_settled([ask(key) for key in distinct], lambda found: then(dict(zip(distinct, found, strict=True))))


async def _all_later(futures: Sequence[Future[T]], then: Callable[[list[T | KafkaError]], R]) -> R:
    await asyncio.wait(futures)
    return then([_result_or_error(future) for future in futures])


def _result_or_error(future: Future[Any]) -> Any:
    try:
        return future.result()
    except KafkaError as error:
        return error
