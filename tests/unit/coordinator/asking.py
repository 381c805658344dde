"""Asking a coordinator's first shard."""

from __future__ import annotations

from asyncio import Future
from typing import TypeVar

from coordinator.runtime.coordinator_context import Operation
from coordinator.runtime.coordinator_shard import CoordinatorShard
from coordinator.runtime.replies import forget
from coordinator.runtime.runtime import CoordinatorRuntime

S = TypeVar("S", bound=CoordinatorShard)
T = TypeVar("T")


def ask(runtime: CoordinatorRuntime[S], operation: Operation[S, T]) -> Future[T]:
    """The answer; a test that leaves an error alone has asyncio say nothing of it."""
    answer = runtime.write(0, operation)
    forget(answer)
    return answer
