"""Futures that several parties may complete (the first one counts), and that pass on their outcome."""

from __future__ import annotations

from asyncio import Future
from typing import Any

from protocol.errors import KafkaError


def resolve(future: Future[Any], value: Any, error: KafkaError | None) -> None:
    """Set the value, or the error if there is one. A future that is done (its waiter gave up) stays as it is."""
    if future.done():
        return
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(error)


def forward(source: Future[Any], target: Future[Any]) -> None:
    """Copy one future's outcome to another, now or when there is one."""

    def pass_on(done: Future[Any]) -> None:
        if done.cancelled():
            target.cancel()
            return
        error = done.exception()
        resolve(target, None if error else done.result(), error)  # type: ignore[arg-type]  # only KafkaErrors are set

    if source.done():
        pass_on(source)
    else:
        source.add_done_callback(pass_on)


def forget(future: Future[Any]) -> None:
    """Stop asyncio from reporting the future's exception as never retrieved: nobody waits for it."""
    if future.done():
        _seen(future)
    else:
        future.add_done_callback(_seen)


def _seen(future: Future[Any]) -> None:
    if not future.cancelled():
        future.exception()
