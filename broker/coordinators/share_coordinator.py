"""The share coordinator of this node: its shards' state machines, connected to the host.

Requests of this node to the share coordinator (Kafka's `DefaultStatePersister`).

The end of share groups: the share coordinator forgets them first, else their names could not be used again.
"""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar
from uuid import UUID

import structlog
from kio.schema.errors import ErrorCode

from broker.coordinators.group_coordinator import GroupCoordinator
from broker.coordinators.hosted import Host, HostedCoordinator
from broker.coordinators.remote import RemoteStates
from broker.membership.broker_clients import BrokerClients
from broker.observe.group_metrics import EndsElsewhere
from broker.observe.metrics import Metrics
from broker.observe.share_metrics import register_share_metrics
from broker.replication.log_maintenance import delete_records
from coordinator.group.share.state_port import Topics
from coordinator.group.share_deletion import begin_deleting
from coordinator.runtime.coordinator_context import CoordinatorContext, Operation
from coordinator.runtime.runtime import CoordinatorRuntime
from coordinator.share.share_coordinator_shard import ROWS, ShareCoordinatorShard, ShareWrite
from metadata.delta import MetadataDelta
from metadata.image import MetadataImage
from metadata.topic_names import SHARE_GROUP_STATE_TOPIC_NAME
from protocol import uuids
from protocol.coordinator_records.share_records import NO_START_OFFSET, SharePartitionKey, ShareSnapshotValue
from protocol.errors import CoordinatorNotAvailable, KafkaError, UnknownTopicOrPartition
from protocol.metadata.topics import NO_LEADER

logger = structlog.get_logger(__name__)


def coordinator_key(key: SharePartitionKey) -> str:
    """What decides which shard a share partition belongs to, as FindCoordinator has it."""
    return f"{key.group_id}:{uuids.to_text(key.topic_id)}:{key.partition}"


class ShareCoordinator(HostedCoordinator[ShareCoordinatorShard]):
    """Routes messages for share partitions, by `coordinator_key`."""

    load_buffer_config = "share.coordinator.load.buffer.size"

    def __init__(self, host: Host) -> None:
        config = host.current.config
        self._snapshot_every = config.integer("share.coordinator.snapshot.update.records.per.snapshot")
        runtime: CoordinatorRuntime[ShareCoordinatorShard] = CoordinatorRuntime(
            SHARE_GROUP_STATE_TOPIC_NAME,
            ROWS,
            self._new_state,
            clock=host.clock,
            wheel=host.wheel,
            write_timeout_ms=config.integer("share.coordinator.write.timeout.ms"),
        )
        partitions = config.integer("share.coordinator.state.topic.num.partitions")
        super().__init__(host, SHARE_GROUP_STATE_TOPIC_NAME, partitions, runtime)

    def _new_state(self, context: CoordinatorContext[ShareCoordinatorShard]) -> ShareCoordinatorShard:
        return ShareCoordinatorShard(context, self._has_partition, self._snapshot_every)

    def _has_partition(self, topic_id: UUID, index: int) -> bool:
        topic = self._host.cache.topic_by_id(topic_id)
        return topic is not None and index in topic.partitions

    def follow(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Besides shards: the state of deleted topics is removed."""
        super().follow(delta, image)
        if delta.touched("topics") and delta.topics.deleted:
            deleted = set(delta.topics.deleted)
            for context in self.runtime.contexts():
                context.tell_once_loaded(lambda state: state.delete_topics(deleted))

    def register_metrics(self, metrics: Metrics, peers: BrokerClients | None) -> None:
        """Register the metrics of share groups for `/metrics`; `peers` are the other brokers of a cluster."""
        host = self._host
        ends = EndsElsewhere(host.node_id, host.cache, peers.reach) if peers is not None else None
        register_share_metrics(metrics, host.replicas, ends, host.cache, self.runtime)

    def elsewhere(self, key: SharePartitionKey) -> RemoteStates | None:
        """The share partition's coordinator on another node; None if it is here. Raises CoordinatorNotAvailable."""
        leader = self.leader_for(self._host.cache.image, coordinator_key(key))
        if leader in (self._host.node_id, NO_LEADER):  # without a leader the shard here answers NOT_COORDINATOR
            return None
        client = self._host.brokers.reach(leader)
        if client is None:
            raise CoordinatorNotAvailable(f"Broker {leader}, which has the share coordinator, is away.")
        return RemoteStates(client)

    async def prune(self) -> None:
        """Delete what the shards no longer need of `__share_group_state` (KIP-932: it is not compacted)."""
        for context in self.runtime.contexts():
            partition = self._host.replicas.get(SHARE_GROUP_STATE_TOPIC_NAME, context.partition)
            if context.state is None or partition is None:
                continue
            offset = min(context.state.redundant_below(), partition.high_watermark)
            if offset <= partition.log_start_offset:
                continue
            try:
                delete_records(partition, offset)
            except KafkaError as error:
                logger.warning("share state not pruned", partition=context.partition, error=str(error))


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
        self, group_id: str, topics: Topics, state_epoch: int, done: Callable[[KafkaError | None], None]
    ) -> None:
        self._start(self._initialize([*_keys(group_id, topics)], state_epoch, NO_START_OFFSET, done))

    def delete(self, group_id: str, topics: Topics) -> None:
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


def _keys(group_id: str, topics: Topics) -> Iterator[SharePartitionKey]:
    for topic_id, indexes in topics.items():
        for index in indexes:
            yield SharePartitionKey(group_id, topic_id, index)


async def delete_groups(
    groups: GroupCoordinator, shares: ShareCoordinator, states: ShareStates, partition: int, group_ids: Sequence[str]
) -> dict[str, ErrorCode]:
    """Delete groups of one shard, of any kind; returns the error code of each."""
    runtime = groups.runtime
    try:
        begun = await runtime.write(partition, lambda shard: begin_deleting(shard, group_ids))
    except KafkaError as error:
        return dict.fromkeys(group_ids, error.code)
    forgotten = await asyncio.gather(*(_forget(shares, states, *each) for each in begun.waiting.items()))
    codes = {**begun.codes, **dict(zip(begun.waiting, forgotten, strict=True))}
    left = [group_id for group_id in begun.waiting if codes[group_id] is ErrorCode.none]
    if left:
        try:
            deleted = await runtime.write(partition, lambda shard: shard.offsets.delete_groups(left))
            codes.update(deleted)
        except KafkaError as error:
            codes.update(dict.fromkeys(left, error.code))
    return codes


async def _forget(
    shares: ShareCoordinator, states: ShareStates, group_id: str, topics: Mapping[UUID, frozenset[int]]
) -> ErrorCode:
    """Have the share coordinator forget a group's states. The state of a topic that is gone is gone too."""
    if not shares.topic_exists:
        return ErrorCode.none  # none was ever made
    for topic_id, partitions in topics.items():
        for index in sorted(partitions):
            try:
                await states.forget(SharePartitionKey(group_id, topic_id, index))
            except UnknownTopicOrPartition:
                continue
            except KafkaError as error:
                return error.code
    return ErrorCode.none
