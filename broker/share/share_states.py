"""Requests of this node to the share coordinator (Kafka's `DefaultStatePersister`)."""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import Any, TypeVar

from broker.coordinators.share_coordinator import ShareCoordinator, coordinator_key
from coordinator.group.modern.groups import StateTopics
from coordinator.runtime.coordinator_context import Operation
from coordinator.share.share_coordinator_shard import ShareCoordinatorShard, ShareWrite
from protocol.coordinator_records.share_records import NO_START_OFFSET, SharePartitionKey, ShareSnapshotValue
from protocol.errors import KafkaError

T = TypeVar("T")


class ShareStates:
    """A `Persister` and a `ShareStatePort`: asks the share coordinator that is responsible, here or on another node."""

    def __init__(self, coordinator: ShareCoordinator) -> None:
        self._coordinator = coordinator
        self._tasks: set[asyncio.Task[None]] = set()

    # -- what share partitions ask

    def read(self, key: SharePartitionKey, leader_epoch: int) -> Future[ShareSnapshotValue]:
        remote = self._coordinator.elsewhere(key)
        if remote is not None:
            return asyncio.ensure_future(remote.read(key, leader_epoch))
        return self._ask(key, lambda state: state.read(key, leader_epoch))

    def write(self, key: SharePartitionKey, wanted: ShareWrite) -> Future[None]:
        remote = self._coordinator.elsewhere(key)
        if remote is not None:
            return asyncio.ensure_future(remote.write(key, wanted))
        return self._ask(key, lambda state: state.write(key, wanted))

    def summary(self, key: SharePartitionKey) -> Future[ShareSnapshotValue | None]:
        """The state without its batches; None, or no start offset, if there is none."""
        remote = self._coordinator.elsewhere(key)
        if remote is not None:
            return asyncio.ensure_future(remote.read_summary(key))
        return self._ask(key, lambda state: state.read_summary(key))

    async def summaries(
        self, keys: Iterable[SharePartitionKey]
    ) -> dict[SharePartitionKey, ShareSnapshotValue | KafkaError | None]:
        """The summaries of these share partitions, or why there is none, in order."""
        wanted = list(keys)
        return dict(zip(wanted, await asyncio.gather(*map(self._summary, wanted)), strict=True))

    async def _summary(self, key: SharePartitionKey) -> ShareSnapshotValue | KafkaError | None:
        try:
            return await self.summary(key)
        except KafkaError as error:
            return error

    def _ask(self, key: SharePartitionKey, operation: Operation[ShareCoordinatorShard, T]) -> Future[T]:
        return self._coordinator.write(coordinator_key(key), operation)

    # -- what share groups ask

    def initialize(
        self, group_id: str, topics: StateTopics, state_epoch: int, done: Callable[[KafkaError | None], None]
    ) -> None:
        self._start(self._initialize([*_keys(group_id, topics)], state_epoch, NO_START_OFFSET, done))

    def delete(self, group_id: str, topics: StateTopics) -> None:
        self._start(self._delete([*_keys(group_id, topics)]))

    async def initialize_at(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> None:
        """Begin a share partition anew at an offset. Raises KafkaErrors."""
        await self._coordinator.ensure_topic()
        remote = self._coordinator.elsewhere(key)
        if remote is not None:
            await remote.initialize(key, state_epoch, start_offset)
        else:
            await self._ask(key, lambda state: state.initialize(key, state_epoch, start_offset))

    async def forget(self, key: SharePartitionKey) -> None:
        """Forget the state of a share partition. Raises KafkaErrors."""
        remote = self._coordinator.elsewhere(key)
        if remote is not None:
            await remote.delete(key)
        else:
            await self._ask(key, lambda state: state.delete(key))

    async def _initialize(
        self,
        keys: list[SharePartitionKey],
        state_epoch: int,
        start_offset: int,
        done: Callable[[KafkaError | None], None],
    ) -> None:
        try:
            await asyncio.gather(*(self.initialize_at(key, state_epoch, start_offset) for key in keys))
        except KafkaError as error:
            done(error)
        else:
            done(None)

    async def _delete(self, keys: list[SharePartitionKey]) -> None:
        await asyncio.gather(*map(self.forget, keys), return_exceptions=True)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()


def _keys(group_id: str, topics: StateTopics) -> Iterator[SharePartitionKey]:
    for topic_id, indexes in topics.items():
        for index in indexes:
            yield SharePartitionKey(group_id, topic_id, index)
