"""The shards of one internal topic that this node leads (Kafka's CoordinatorRuntime)."""

from __future__ import annotations

import asyncio
from asyncio import AbstractEventLoop, Future, Task
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Generic, TypeVar

import structlog

from coordinator.runtime.outcome import ProducerEpoch
from coordinator.runtime.shard import Operation, Shard, ShardStatus, Surroundings
from coordinator.runtime.state_machine import RecordRow, StateMachine
from protocol.errors import KafkaError, NotCoordinator
from protocol.records.compression import Compression

if TYPE_CHECKING:
    from coordinator.runtime.log_port import LogPort
    from timing.clock import Clock
    from timing.wheel import TimingWheel

logger = structlog.get_logger(__name__)

S = TypeVar("S", bound=StateMachine)
T = TypeVar("T")


class CoordinatorRuntime(Generic[S]):
    """Loads and unloads shards, and takes their messages by partition index.

    `topic` names the internal topic. `base_sequence` is that of every batch of records: in Kafka, 0 from its
    CoordinatorRuntime, none from its TransactionStateManager.
    """

    def __init__(
        self,
        topic: str,
        rows: Mapping[int, RecordRow],
        new_state: Callable[[Shard[S]], S],
        *,
        clock: Clock,
        wheel: TimingWheel,
        compression: Compression = Compression.NONE,
        base_sequence: int = 0,
        loop: AbstractEventLoop | None = None,
    ) -> None:
        self._topic = topic
        self._loop = loop or asyncio.get_running_loop()
        self._surroundings: Surroundings[S] = Surroundings(
            self._loop, clock, wheel, rows, new_state, self._start_loading, compression, base_sequence
        )
        self._shards: dict[int, Shard[S]] = {}
        self._loads: dict[int, Task[None]] = {}
        self._turn_to_load = asyncio.Lock()

    def load(self, partition: int, log: LogPort) -> None:
        """Load the partition's shard, as this node leads it from now on; it replaces any earlier one."""
        self.unload(partition)
        shard = Shard(f"{self._topic}-{partition}", partition, log, self._surroundings)
        self._shards[partition] = shard
        self._start_loading(shard)

    def unload(self, partition: int) -> None:
        """Unload the partition's shard, as this node no longer leads it; harmless if it did not."""
        shard = self._shards.pop(partition, None)
        if shard is not None:
            task = self._loads.pop(partition, None)
            if task is not None:
                task.cancel()
            shard.unload()

    def unload_all(self) -> None:
        for partition in list(self._shards):
            self.unload(partition)

    async def loaded(self) -> None:
        """Return when no shard is loading."""
        while self._loads:
            await asyncio.wait(list(self._loads.values()))

    def write(self, partition: int, operation: Operation[S, T]) -> Future[T]:
        """See `Shard.write`; fails with NotCoordinator where no shard is here."""
        shard = self._shards.get(partition)
        return self._not_here() if shard is None else shard.write(operation)

    def read(self, partition: int, operation: Callable[[S], T]) -> Future[T]:
        """See `Shard.read`."""
        shard = self._shards.get(partition)
        return self._not_here() if shard is None else shard.read(operation)

    def end_transaction(
        self, partition: int, producer: ProducerEpoch, coordinator_epoch: int, committed: bool
    ) -> Future[None]:
        """See `Shard.end_transaction`."""
        shard = self._shards.get(partition)
        return self._not_here() if shard is None else shard.end_transaction(producer, coordinator_epoch, committed)

    def shard(self, partition: int) -> Shard[S] | None:
        """The partition's shard; None if this node does not coordinate it."""
        return self._shards.get(partition)

    def shards(self) -> Collection[Shard[S]]:
        """Every shard of this node, loading or not."""
        return self._shards.values()

    def __contains__(self, partition: int) -> bool:
        return partition in self._shards

    def _not_here(self) -> Future[T]:
        future: Future[T] = self._loop.create_future()
        future.set_exception(NotCoordinator())
        return future

    def _start_loading(self, shard: Shard[S]) -> None:
        task = self._loop.create_task(self._load(shard), name=f"load-{shard.name}")
        self._loads[shard.partition] = task
        task.add_done_callback(lambda done: self._load_ended(shard.partition, done))

    async def _load(self, shard: Shard[S]) -> None:
        """Load one shard after the other, as in Kafka: the first ones serve while the others load."""
        try:
            async with self._turn_to_load:
                await shard.load()
        except (KafkaError, ValueError) as error:
            logger.error("coordinator not loaded", shard=shard.name, error=str(error))
            shard.unload(ShardStatus.FAILED)
        except Exception:
            logger.exception("unexpected error while a coordinator loaded", shard=shard.name)
            shard.unload(ShardStatus.FAILED)

    def _load_ended(self, partition: int, task: Task[None]) -> None:
        if self._loads.get(partition) is task:
            del self._loads[partition]
