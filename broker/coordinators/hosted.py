"""The coordinators of this node: which shards they run, over which partitions, and how they are called.

A coordinator has a shard for each partition of its internal topic that this node leads, from the moment in which it
leads it. A message goes to the shard of its key (a group, a transactional id, a share partition), and is answered
NOT_COORDINATOR where there is none. A shard writes to its partition as to a log (`PartitionCoordinatorLog`).
"""

from __future__ import annotations

import struct
from asyncio import Future
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from dataclasses import dataclass
from random import Random
from typing import Generic, TypeVar

import structlog

from broker.config.broker_config import CurrentConfig
from broker.membership.auto_create import AutoTopicCreation
from broker.membership.broker_clients import BrokerClients
from broker.membership.metadata_cache import MetadataCache
from broker.replication.partition import Partition, Role
from broker.replication.replica_manager import ReplicaManager
from coordinator.runtime.coordinator_context import Operation
from coordinator.runtime.coordinator_shard import CoordinatorShard
from coordinator.runtime.runtime import CoordinatorRuntime, partition_for
from metadata.delta import MetadataDelta
from metadata.image import MetadataImage
from metadata.topics import TopicImage
from protocol.errors import CorruptMessage, KafkaError, KafkaStorage, NotCoordinator
from protocol.metadata.topics import NO_LEADER
from protocol.records.batch import LOG_OVERHEAD, read_header
from storage.append_types import AppendOrigin
from storage.log.log_services import DESCRIPTORS_RETRY_MS
from timing.clock import Clock
from timing.wheel import TimingWheel

logger = structlog.get_logger(__name__)

S = TypeVar("S", bound=CoordinatorShard)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Host:
    """The parts of a node that coordinators use."""

    node_id: int
    current: CurrentConfig
    cache: MetadataCache
    auto_topics: AutoTopicCreation
    random: Random
    clock: Clock
    wheel: TimingWheel
    replicas: ReplicaManager
    brokers: BrokerClients


class HostedCoordinator(Generic[S]):
    """One kind of coordinator; its shards follow the partitions of its internal topic that this node hosts.

    `load_buffer_config` names the configuration for the size of reads while a shard loads.
    """

    load_buffer_config: str

    def __init__(self, host: Host, topic: str, default_partitions: int, runtime: CoordinatorRuntime[S]) -> None:
        self._host = host
        self._topic = topic
        self._partitions = default_partitions
        self._counted = False
        self._stopped = False
        self._terms: dict[int, int] = {}
        """The terms of the shards of `runtime`, by partition; see `term_of`."""
        self.runtime = runtime

    def start(self) -> None:
        """Load the shards of partitions hosted here. Call it once the partitions are open."""
        topic = self._host.cache.topic(self._topic)
        if topic is not None:
            self._load(topic)

    def stop(self) -> None:
        """Unload every shard, and load none any more; waiting requests are answered.

        The node follows the metadata for a while longer, and its logs are about to be closed.
        """
        self._stopped = True
        self.runtime.unload_all()

    async def ensure_topic(self) -> None:
        """Create the internal topic if it does not exist, and wait until its shards are loaded.

        Raises CoordinatorNotAvailable if it cannot be created.
        """
        if not self.topic_exists:
            await self._host.auto_topics.ensure_internal(self._topic)
            await self.runtime.loaded()

    @property
    def topic_exists(self) -> bool:
        return self._host.cache.topic(self._topic) is not None

    @property
    def partition_count(self) -> int:
        """The number of partitions of the internal topic over which keys are spread."""
        return self._partitions

    def partition_for(self, key: str) -> int:
        """The partition of the internal topic that a group or transactional id belongs to."""
        return partition_for(key, self._partitions)

    def is_available(self, key: str) -> bool:
        """Whether the partition of a group or transactional id has a leader, that is, whether its log is online."""
        topic = self._host.cache.topic(self._topic)
        return topic is not None and partition_for(key, self._partitions) not in self._host.replicas.offline_of(topic)

    def leader_for(self, image: MetadataImage, key: str) -> int:
        """The broker that leads the partition of a group or transactional id; -1 for none."""
        topic = image.topics.get(self._topic)
        partition = None if topic is None else topic.partitions.get(partition_for(key, self._partitions))
        return NO_LEADER if partition is None else partition.leader

    def leaders(self, image: MetadataImage) -> dict[int, int]:
        """The broker that leads each partition of the internal topic; NO_LEADER if it has none."""
        topic = image.topics.get(self._topic)
        return {} if topic is None else {index: partition.leader for index, partition in topic.partitions.items()}

    def write(self, key: str, operation: Operation[S, T]) -> Future[T]:
        """Run `operation` in the shard that `key` belongs to; see `CoordinatorContext.write`."""
        return self.runtime.write(partition_for(key, self._partitions), operation)

    def read(self, key: str, operation: Callable[[S], T]) -> Future[T]:
        """See `CoordinatorContext.read`."""
        return self.runtime.read(partition_for(key, self._partitions), operation)

    def read_all(self, operation: Callable[[S], T]) -> list[Future[T]]:
        """The answers of this node's shards; see `of_those_here`."""
        return [context.read(operation) for context in self.runtime.contexts()]

    def follow(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Load the shards of partitions that are led here now, and unload those that are no longer, or are deleted."""
        if not delta.touched("topics"):
            return
        if any(topic.name == self._topic for topic in delta.topics.deleted.values()):
            self.runtime.unload_all()
            self._terms.clear()
            self._counted = False
        topic = image.topics.get(self._topic)
        if topic is not None and topic.id in delta.topics.changed:
            self._load(topic)

    def logs_made(self, topics: Collection[str]) -> None:
        """Load the shards of partitions of these topics whose logs could not be made before."""
        topic = self._host.cache.topic(self._topic)
        if topic is not None and self._topic in topics:
            self._load(topic)

    def term_of(self, partition: Partition) -> int:
        """A number that stays the same as long as a shard does: that of the leadership without interruption."""
        return partition.led_since

    def _load(self, topic: TopicImage) -> None:
        """Load and unload shards. As in Kafka, partitions added later move no keys until the next start."""
        if self._stopped:
            return
        buffer_bytes = self._host.current.config.integer(self.load_buffer_config)
        if not self._counted:
            self._partitions, self._counted = topic.partition_count, True
        for index in range(topic.partition_count):
            partition = self._host.replicas.get(topic.name, index)
            if partition is None or partition.role is Role.FOLLOWER:
                self.runtime.unload(index)
                self._terms.pop(index, None)
            elif partition.role is Role.LEADER:
                term = self.term_of(partition)
                if index not in self.runtime or self._terms.get(index) != term:
                    self._terms[index] = term
                    self.runtime.load(index, PartitionCoordinatorLog(partition, self._host.clock, buffer_bytes))
            # else an offline log's content is unknown: no answer is better than an empty one


def of_those_here(answers: Iterable[T | KafkaError]) -> list[T]:
    """The answers without those of shards that are gone or failed to load.

    Raises whatever else a shard answers, mostly CoordinatorLoadInProgress.
    """
    here: list[T] = []
    for answer in answers:
        if not isinstance(answer, KafkaError):
            here.append(answer)
        elif not isinstance(answer, NotCoordinator):
            raise answer
    return here


# -- the log of a shard

_LENGTH = struct.Struct(">i")
_LENGTH_AT = 8


class PartitionCoordinatorLog:
    """Appends with origin COORDINATOR; reads the log in pieces of about `load_buffer_bytes`."""

    def __init__(self, partition: Partition, clock: Clock, load_buffer_bytes: int) -> None:
        self._partition = partition
        self._clock = clock
        self._load_buffer_bytes = load_buffer_bytes

    @property
    def high_watermark(self) -> int:
        return self._partition.high_watermark

    @property
    def log_end_offset(self) -> int:
        return self._partition.log_end_offset

    @property
    def max_batch_bytes(self) -> int:
        return self._partition.log.config.max_message_bytes

    def append(self, batch: bytearray) -> int:
        """See `Partition.append` for the errors."""
        info = self._partition.append(memoryview(batch), AppendOrigin.COORDINATOR, self._clock.wall_ms())
        return info.first_offset

    def listen(self, advanced: Callable[[int], None], failed: Callable[[KafkaError], None]) -> Callable[[], None]:
        return self._partition.listen(advanced, failed)

    async def batches(self) -> AsyncIterator[memoryview]:
        partition = self._partition
        log = partition.log
        end = log.log_end_offset
        offset = log.log_start_offset
        while offset < end:
            data = await self._read(offset)
            if not data:
                break  # compaction has removed the end
            whole, offset = _whole_batches(data, offset)
            if not whole:
                raise CorruptMessage(f"{partition.topic}-{partition.index} is cut short at offset {offset}.")
            yield data[:whole]
        if log.is_offline:  # it went offline since the last read, and no listener is notified
            raise log.storage_error()

    async def _read(self, offset: int) -> memoryview:
        """Read, retrying while no descriptor is free: a coordinator that failed to load is never loaded again."""
        log = self._partition.log
        while True:
            try:
                return memoryview(await log.plan_read(offset, self._load_buffer_bytes, log.end, True).read())
            except KafkaStorage as error:
                if log.is_offline:
                    raise
                logger.warning("coordinator waits to be loaded", partition=log.name, error=str(error))
            await self._clock.machine.sleep(DESCRIPTORS_RETRY_MS)


def _whole_batches(data: memoryview, offset: int) -> tuple[int, int]:
    """The size in bytes of the whole batches at the front, and the offset after them."""
    at = 0
    while at + LOG_OVERHEAD <= len(data):
        end = at + LOG_OVERHEAD + _LENGTH.unpack_from(data, at + _LENGTH_AT)[0]
        if end > len(data):
            break
        offset = read_header(data, at).next_offset
        at = end
    return at, offset
