"""Answers that mostly are there at once, without a task for those that are."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def when_done(future: Future[T], then: Callable[[T], R]) -> R | Awaitable[R]:
    """``then`` of the result, now if it is there. Raises what the future does."""
    return then(future.result()) if future.done() else _later(future, then)


async def _later(future: Future[T], then: Callable[[T], R]) -> R:
    return then(await future)
