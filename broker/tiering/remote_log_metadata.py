"""`__remote_log_metadata`: what is known of all remote segments, as records (`TopicBasedRemoteLogMetadataManager`).

How it works: the topic is made when the first topic is tiered. A change counts once its record is committed, which for
this topic means flushed: an object in the store that nothing refers to would stay there for ever, after a power
failure. At a start all records are read; later ones are this node's own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING
from uuid import UUID

import structlog

from broker.coordinators.hosted import PartitionCoordinatorLog
from broker.membership.auto_create import wanted
from broker.replication.waits import until_committed
from protocol.errors import NotLeaderOrFollower
from protocol.primitives import DecodeError
from protocol.records.batch import read_header
from protocol.records.build import Record, build_batch, iter_records
from protocol.remote_log_records import (
    decode_remote_log_record,
    encode_remote_log_record,
    metadata_partition,
)
from protocol.remote_storage.segment import (
    RemoteSegment,
    State,
    TopicIdPartition,
    metadata_record,
    update_record,
)
from protocol.remote_storage.segments import RemoteSegments, replay
from storage.append_types import AppendOrigin

if TYPE_CHECKING:
    from broker.membership.auto_create import AutoTopicCreation
    from broker.membership.metadata_cache import MetadataCache
    from broker.replication.replica_manager import ReplicaManager
    from broker.tiering.settings import MetadataSettings
    from timing.clock import Clock
    from timing.wheel import TimingWheel

logger = structlog.get_logger(__name__)

TOPIC = "__remote_log_metadata"
READ_BYTES = 1 << 20

PartitionId = tuple[UUID, int]


class RemoteLogMetadata:
    """The topic, and the segments that its records are about, by topic id and partition."""

    def __init__(
        self,
        settings: MetadataSettings,
        cache: MetadataCache,
        auto_topics: AutoTopicCreation,
        replicas: ReplicaManager,
        clock: Clock,
        wheel: TimingWheel,
    ) -> None:
        self._settings = settings
        self._cache = cache
        self._auto_topics = auto_topics
        self._replicas = replicas
        self._clock = clock
        self._wheel = wheel
        self.segments: dict[PartitionId, RemoteSegments] = {}
        self.partitions: dict[PartitionId, TopicIdPartition] = {}
        self._turns: dict[PartitionId, asyncio.Lock] = {}

    def turn(self, partition: TopicIdPartition) -> asyncio.Lock:
        """To be held while something of a partition is copied or removed."""
        return self._turns.setdefault((partition.topic_id, partition.index), asyncio.Lock())

    def of(self, partition: TopicIdPartition) -> RemoteSegments:
        """What is known of a partition."""
        key = partition.topic_id, partition.index
        found = self.segments.get(key)
        if found is None:
            found = self.segments[key] = RemoteSegments(f"{partition.topic}-{partition.index}")
            self.partitions[key] = partition
        return found

    def forget(self, partition: TopicIdPartition) -> None:
        """Forget a partition of which nothing is left."""
        key = partition.topic_id, partition.index
        if not self.segments.get(key):
            self.segments.pop(key, None)
            self.partitions.pop(key, None)
            self._turns.pop(key, None)

    async def ensure_topic(self) -> None:
        """Make the topic if it does not exist. Raises NotLeaderOrFollower if that fails."""
        if self._cache.topic(TOPIC) is None:
            settings = self._settings
            configs = {
                "cleanup.policy": "delete",
                "retention.ms": str(settings.retention_ms),
                "remote.storage.enable": "false",
                "min.insync.replicas": str(settings.min_isr),
                "flush.messages": "1",
            }
            topic = wanted(TOPIC, settings.partitions, settings.replication_factor, configs)
            await self._auto_topics.ensure(topic, "topic of remote storage created")
        if self._cache.topic(TOPIC) is None:
            raise NotLeaderOrFollower(f"{TOPIC} could not be created.")

    async def load(self) -> None:
        """Read all records, from the first on. Raises KafkaError if a partition of the topic cannot be read."""
        for segments in self.segments.values():
            segments.clear()
        topic = self._cache.topic(TOPIC)
        for index in range(0 if topic is None else topic.partition_count):
            log = PartitionCoordinatorLog(self._replicas.find(TOPIC, index), self._clock, READ_BYTES)
            async for data in log.batches():
                for record in _records(data):
                    self._replay(record)

    def _replay(self, record: Record) -> None:
        try:
            replay(decode_remote_log_record(record.value or b""), self.of)
        except (DecodeError, ValueError) as error:
            logger.error("record of remote storage left out", offset=record.offset, error=str(error))

    async def put(self, segment: RemoteSegment) -> None:
        """Let a segment be in its state: write the record, wait until it is committed, count it. Raises KafkaError."""
        record = metadata_record(segment) if segment.state is State.COPY_STARTED else update_record(segment)
        topic = self._cache.topic(TOPIC)
        if topic is None:
            raise NotLeaderOrFollower(f"{TOPIC} does not exist.")
        index = metadata_partition(segment.partition.topic_id, segment.partition.index, topic.partition_count)
        partition = self._replicas.find(TOPIC, index)
        now_ms = self._clock.wall_ms()
        batch = build_batch([Record(0, now_ms, None, encode_remote_log_record(record), ())])
        info = partition.append(memoryview(batch), AppendOrigin.COORDINATOR, now_ms)
        committed = until_committed(partition, info.last_offset + 1, self._wheel)
        if committed is not None:
            await committed
        self.of(segment.partition).take(segment)


def _records(data: memoryview) -> Iterator[Record]:
    position = 0
    while position < len(data):
        header = read_header(data, position)
        batch = data[position : position + header.size]
        yield from iter_records(batch, header)
        position += header.size
