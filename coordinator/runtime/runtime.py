"""The contexts of one internal topic's partitions that this node leads (Kafka's CoordinatorRuntime).

How it works: the node tells `load` when it becomes leader of an internal partition, and `unload` when it no longer is.
Each partition has a CoordinatorContext, found by its index. Loads wait for each other, so that the first partitions
serve while others load. A context whose log failed asks to be loaded again, and takes its place at the end of that
line. `partition_for` says which partition a group or a transactional id belongs to.
"""

from __future__ import annotations

import asyncio
from asyncio import AbstractEventLoop, Future, Task
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Generic, TypeVar

import structlog

from coordinator.runtime.coordinator_context import CoordinatorContext, CoordinatorState, Operation, RuntimeServices
from coordinator.runtime.coordinator_shard import CoordinatorShard, RecordRow
from coordinator.runtime.outcome import ProducerEpoch
from protocol.errors import KafkaError, NotCoordinator
from protocol.java_strings import java_string_hash
from protocol.records.compression import Compression

if TYPE_CHECKING:
    from coordinator.runtime.log_port import LogPort
    from timing.clock import Clock
    from timing.wheel import TimingWheel


logger = structlog.get_logger(__name__)

S = TypeVar("S", bound=CoordinatorShard)
T = TypeVar("T")


class CoordinatorRuntime(Generic[S]):
    """Loads and unloads contexts, and takes their messages by partition index.

    `topic` names the internal topic. `base_sequence` is that of every batch of records: in Kafka, 0 from its
    CoordinatorRuntime, none from its TransactionStateManager. Answers wait `write_timeout_ms` at most to be committed,
    or as long as it takes.
    """

    def __init__(
        self,
        topic: str,
        rows: Mapping[int, RecordRow],
        new_state: Callable[[CoordinatorContext[S]], S],
        *,
        clock: Clock,
        wheel: TimingWheel,
        compression: Compression = Compression.NONE,
        base_sequence: int = 0,
        write_timeout_ms: float | None = None,
        loop: AbstractEventLoop | None = None,
    ) -> None:
        self._topic = topic
        self._loop = loop or asyncio.get_running_loop()
        self._listeners: list[Callable[[], None]] = []
        self._services: RuntimeServices[S] = RuntimeServices(
            self._loop,
            clock,
            wheel,
            rows,
            new_state,
            self._start_loading,
            compression,
            base_sequence,
            write_timeout_ms,
            self._listeners,
        )
        self._contexts: dict[int, CoordinatorContext[S]] = {}
        self._loads: dict[int, Task[None]] = {}
        self._turn_to_load = asyncio.Lock()

    def load(self, partition: int, log: LogPort) -> None:
        """Load the partition's context, as this node leads it from now on; it replaces any earlier one."""
        self.unload(partition)
        context = CoordinatorContext(f"{self._topic}-{partition}", partition, log, self._services)
        self._contexts[partition] = context
        self._start_loading(context)

    def unload(self, partition: int) -> None:
        """Unload the partition's context, as this node no longer leads it; harmless if it did not."""
        context = self._contexts.pop(partition, None)
        if context is not None:
            task = self._loads.pop(partition, None)
            if task is not None:
                task.cancel()
            context.unload()

    def unload_all(self) -> None:
        for partition in list(self._contexts):
            self.unload(partition)

    async def loaded(self) -> None:
        """Return when no context is loading."""
        while self._loads:
            await asyncio.wait(list(self._loads.values()))

    def write(self, partition: int, operation: Operation[S, T]) -> Future[T]:
        """See `CoordinatorContext.write`; fails with NotCoordinator where no context is here."""
        context = self._contexts.get(partition)
        return self._not_here() if context is None else context.write(operation)

    def read(self, partition: int, operation: Callable[[S], T]) -> Future[T]:
        """See `CoordinatorContext.read`."""
        context = self._contexts.get(partition)
        return self._not_here() if context is None else context.read(operation)

    def end_transaction(
        self, partition: int, producer: ProducerEpoch, coordinator_epoch: int, committed: bool
    ) -> Future[None]:
        """See `CoordinatorContext.end_transaction`."""
        context = self._contexts.get(partition)
        return self._not_here() if context is None else context.end_transaction(producer, coordinator_epoch, committed)

    def context(self, partition: int) -> CoordinatorContext[S] | None:
        """The partition's context; None if this node does not coordinate it."""
        return self._contexts.get(partition)

    def contexts(self) -> Collection[CoordinatorContext[S]]:
        """Every context of this node, loading or not."""
        return self._contexts.values()

    def __contains__(self, partition: int) -> bool:
        return partition in self._contexts

    def listen(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call `changed` whenever the state of a context may have changed; it must not call the runtime.

        Returns the function that ends this. `read` shows the new state once it is committed.
        """
        self._listeners.append(changed)
        return lambda: self._listeners.remove(changed)

    def _not_here(self) -> Future[T]:
        future: Future[T] = self._loop.create_future()
        future.set_exception(NotCoordinator())
        return future

    def _start_loading(self, context: CoordinatorContext[S]) -> None:
        task = self._loop.create_task(self._load(context), name=f"load-{context.name}")
        self._loads[context.partition] = task
        task.add_done_callback(lambda done: self._load_ended(context.partition, done))

    async def _load(self, context: CoordinatorContext[S]) -> None:
        """Load one context after the other, as in Kafka: the first ones serve while the others load."""
        try:
            async with self._turn_to_load:
                await context.load()
        except (KafkaError, ValueError) as error:
            logger.error("coordinator not loaded", shard=context.name, error=str(error))
            context.unload(CoordinatorState.FAILED)
        except Exception:
            logger.exception("unexpected error while a coordinator loaded", shard=context.name)
            context.unload(CoordinatorState.FAILED)

    def _load_ended(self, partition: int, task: Task[None]) -> None:
        if self._loads.get(partition) is task:
            del self._loads[partition]


_INT_MIN = -(1 << 31)


_LONGEST_KEPT = 256
"""The longest key, in characters, whose hash is cached: clients may send long ones."""


def partition_for(key: str, partitions: int) -> int:
    """`Utils.abs(key.hashCode()) % partitions`, whose abs of -2^31 is 0."""
    return (_remembered(key) if len(key) <= _LONGEST_KEPT else _positive_hash(key)) % partitions


def _positive_hash(key: str) -> int:
    hashed = java_string_hash(key)
    return 0 if hashed == _INT_MIN else abs(hashed)


_remembered = lru_cache(maxsize=10_000)(_positive_hash)
