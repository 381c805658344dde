"""The share coordinator of this node, and what this node asks share coordinators.

`ShareCoordinator` has the shards' state machines, connected to the host. It answers for what it coordinates, and
NOT_COORDINATOR for everything else: the requests of other brokers are answered by it alone (Kafka's
`ShareCoordinatorService`). `ShareStates` is the client's side (Kafka's `DefaultStatePersister`): it finds the
coordinator, which is here or on another broker. Share groups are deleted through it: their states are forgotten first,
else their names could not be used again.
"""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

import structlog
from kio.schema.errors import ErrorCode

from broker.coordinators.group_coordinator import GroupCoordinator
from broker.coordinators.hosted import Host, HostedCoordinator
from broker.replication.log_maintenance import delete_records
from coordinator.group.modern.groups import StateTopics
from coordinator.group.share.partition_states import begin_deleting
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

if TYPE_CHECKING:
    from broker.coordinators.remote import RemoteStates

logger = structlog.get_logger(__name__)

T = TypeVar("T")


def coordinator_key(key: SharePartitionKey) -> str:
    """Return the key that decides which shard a share partition belongs to, as FindCoordinator has it."""
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
        topic = self._host.cache.image.topics.by_id(topic_id)
        return topic is not None and index in topic.partitions

    def follow(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Besides shards: the state of deleted topics is removed."""
        super().follow(delta, image)
        if delta.touched("topics") and delta.topics.deleted:
            deleted = set(delta.topics.deleted)
            for context in self.runtime.contexts():
                context.tell_once_loaded(lambda state: state.delete_topics(deleted))

    def ask(self, key: SharePartitionKey, operation: Operation[ShareCoordinatorShard, T]) -> Future[T]:
        """Run `operation` in the shard of the share partition here; NotCoordinator if this node does not have it."""
        return self.write(coordinator_key(key), operation)

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


class ShareStates:
    """A `ShareStatePort`: asks the share coordinator that is responsible, here or on another node.

    Answers are the KafkaErrors of the coordinator, and CoordinatorNotAvailable if it is away, which is also raised.
    """

    def __init__(self, host: Host, coordinator: ShareCoordinator) -> None:
        self._host = host
        self._coordinator = coordinator
        self._tasks: set[asyncio.Task[None]] = set()

    def _ask(
        self,
        key: SharePartitionKey,
        here: Operation[ShareCoordinatorShard, T],
        there: Callable[[RemoteStates], Coroutine[Any, Any, T]],
    ) -> Future[T]:
        name = coordinator_key(key)
        leader = self._coordinator.leader_for(self._host.cache.image, name)
        if leader in (self._host.node_id, NO_LEADER):  # without a leader the shard here answers NOT_COORDINATOR
            return self._coordinator.write(name, here)
        client = self._host.brokers.reach(leader)
        if client is None:
            raise CoordinatorNotAvailable(f"Broker {leader}, which has the share coordinator, is away.")
        from broker.coordinators.remote import RemoteStates

        return asyncio.ensure_future(there(RemoteStates(client)))

    # -- what share partitions ask

    def read(self, key: SharePartitionKey, leader_epoch: int) -> Future[ShareSnapshotValue]:
        return self._ask(
            key, lambda state: state.read(key, leader_epoch), lambda remote: remote.read(key, leader_epoch)
        )

    def write(self, key: SharePartitionKey, wanted: ShareWrite) -> Future[None]:
        return self._ask(key, lambda state: state.write(key, wanted), lambda remote: remote.write(key, wanted))

    def summary(self, key: SharePartitionKey) -> Future[ShareSnapshotValue | None]:
        """The state without its batches; None, or no start offset, if there is none."""
        return self._ask(key, lambda state: state.read_summary(key), lambda remote: remote.read_summary(key))

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

    # -- what share groups ask

    def initialize(
        self,
        group_id: str,
        topics: StateTopics,
        state_epoch: int,
        done: Callable[[KafkaError | None], None],
        *,
        grown: Collection[UUID],
    ) -> None:
        starts = {key: 0 if key.topic_id in grown else NO_START_OFFSET for key in _keys(group_id, topics)}
        self._start(self._initialize(starts, state_epoch, done))

    async def _initialize(
        self, starts: Mapping[SharePartitionKey, int], state_epoch: int, done: Callable[[KafkaError | None], None]
    ) -> None:
        try:
            await asyncio.gather(*(self.initialize_at(key, state_epoch, start) for key, start in starts.items()))
        except KafkaError as error:
            done(error)
        else:
            done(None)

    def delete(self, group_id: str, topics: StateTopics) -> None:
        self._start(self._delete([*_keys(group_id, topics)]))

    async def _delete(self, keys: Sequence[SharePartitionKey]) -> None:
        await asyncio.gather(*map(self.forget, keys), return_exceptions=True)

    async def initialize_at(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> None:
        """Begin a share partition anew at an offset. Raises KafkaErrors."""
        await self._coordinator.ensure_topic()
        await self._ask(
            key,
            lambda state: state.initialize(key, state_epoch, start_offset),
            lambda remote: remote.initialize(key, state_epoch, start_offset),
        )

    async def forget(self, key: SharePartitionKey) -> None:
        """Forget the state of a share partition. Raises KafkaErrors."""
        await self._ask(key, lambda state: state.delete(key), lambda remote: remote.delete(key))

    async def forget_group(self, group_id: str, topics: Mapping[UUID, frozenset[int]]) -> ErrorCode:
        """Forget the states of a group. The state of a topic that is gone is gone too."""
        if not self._coordinator.topic_exists:
            return ErrorCode.none  # none was ever made
        for topic_id, partitions in topics.items():
            for index in sorted(partitions):
                try:
                    await self.forget(SharePartitionKey(group_id, topic_id, index))
                except UnknownTopicOrPartition:
                    continue
                except KafkaError as error:
                    return error.code
        return ErrorCode.none

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


async def delete_groups(
    groups: GroupCoordinator, states: ShareStates, partition: int, group_ids: Sequence[str]
) -> dict[str, ErrorCode]:
    """Delete groups of one shard, of any kind; returns the error code of each."""
    runtime = groups.runtime
    try:
        begun = await runtime.write(
            partition, lambda shard: begin_deleting(shard.groups.modern, shard.offsets, group_ids)
        )
    except KafkaError as error:
        return dict.fromkeys(group_ids, error.code)
    forgotten = await asyncio.gather(*(states.forget_group(*each) for each in begun.waiting.items()))
    codes = {**begun.codes, **dict(zip(begun.waiting, forgotten, strict=True))}
    left = [group_id for group_id in begun.waiting if codes[group_id] is ErrorCode.none]
    if left:
        try:
            deleted = await runtime.write(partition, lambda shard: shard.offsets.delete_groups(left))
            codes.update(deleted)
        except KafkaError as error:
            codes.update(dict.fromkeys(left, error.code))
    return codes
