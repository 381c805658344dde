"""What is known of all remote segments, by `__remote_log_metadata` (Kafka's `TopicBasedRemoteLogMetadataManager`).

How it works: the topic is made when the first topic is tiered. Each partition that is tiered and hosted here has one of
its partitions, which is read; so are those that this node leads, as it looks for what deleted topics have left. A
change counts once its record is committed and read back. On a node that stands alone committed means flushed: an object
in the store that nothing refers to would stay there for ever, after a power failure.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING
from uuid import UUID

import structlog

from broker.membership.auto_create import wanted
from broker.tiering.metadata_topic import MetadataTopic
from metadata.topic_names import REMOTE_LOG_METADATA_TOPIC_NAME as TOPIC
from protocol.errors import NotLeaderOrFollower, UnknownServerError
from protocol.primitives import DecodeError
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

if TYPE_CHECKING:
    from broker.coordinators.hosted import Host
    from broker.tiering.settings import MetadataSettings
    from protocol.records.build import Record
    from protocol.remote_storage.store import StoredObject

logger = structlog.get_logger(__name__)

PartitionId = tuple[UUID, int]


class RemoteLogMetadata:
    """The topic, and the segments that its records are about, by topic id and partition.

    `forgotten(partition)` is called when what is known of a partition is to be read anew.
    """

    def __init__(self, settings: MetadataSettings, host: Host, forgotten: Callable[[TopicIdPartition], None]) -> None:
        self._settings = settings
        self._forgotten = forgotten
        self._host = host
        self._topic = MetadataTopic(host, self._replay, self._forget_all_in)
        self.segments: dict[PartitionId, RemoteSegments] = {}
        self.partitions: dict[PartitionId, TopicIdPartition] = {}
        self._turns: dict[PartitionId, asyncio.Lock] = {}
        self._said: str | None = None

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
        del self.segments[key], self.partitions[key]
        self._turns.pop(key, None)

    # -- the topic

    async def ensure_topic(self) -> None:
        """Make the topic if it does not exist; that it could not be made is logged."""
        settings = self._settings
        configs = {
            "cleanup.policy": "delete",
            "retention.ms": str(settings.retention_ms),
            "remote.storage.enable": "false",
            "min.insync.replicas": str(settings.min_isr),
        }
        if settings.replication_factor == 1:
            configs["flush.messages"] = "1"
        topic = wanted(TOPIC, settings.partitions, settings.replication_factor, configs)
        await self._host.auto_topics.ensure(topic, "topic of remote storage created")

    @property
    def topic_exists(self) -> bool:
        return self._topic.partition_count > 0

    @property
    def problem(self) -> str | None:
        """Why what there is cannot be known, for people: nothing is copied, read or removed then (as in Kafka)."""
        count, configured = self._topic.partition_count, self._settings.partitions
        if count in (0, configured):
            return None
        return (
            f"{TOPIC} has {count} partitions, but rlmm.config.remote.log.metadata.topic.num.partitions = {configured}: "
            "nothing is copied to remote storage, read from it or removed"
        )

    def follow(self, hosted: Iterable[TopicIdPartition]) -> None:
        """Read what the topic says of these partitions, and what this node leads of it, from who leads it now."""
        self._topic.follow()
        if (problem := self.problem) is not None:
            if problem != self._said:
                logger.error("remote segments cannot be known", why=problem)
            self._said = problem
            return
        if self.topic_exists:
            for partition in hosted:
                self._topic.want(self._index_of(partition))
        for index in range(self._topic.partition_count):
            if self._topic.is_led_here(index):
                self._topic.want(index)

    def _index_of(self, partition: TopicIdPartition) -> int:
        return metadata_partition(partition.topic_id, partition.index, self._settings.partitions)

    async def until_known(self, partition: TopicIdPartition) -> None:
        """Return once all is read of a partition that there was when this was first asked for."""
        if self.problem is not None:
            await asyncio.get_running_loop().create_future()
        if self.topic_exists:
            await asyncio.shield(self._topic.want(self._index_of(partition)).known)

    def is_led_here(self, partition: TopicIdPartition) -> bool:
        """Whether this node leads the records about a partition, and has read them."""
        index = self._index_of(partition)
        return self._topic.is_led_here(index) and self._topic.is_known(index)

    @property
    def is_known(self) -> bool:
        """Whether all is read that there was at the start."""
        return self.problem is None and self._topic.are_all_known

    def covers(self, one: StoredObject) -> bool:
        """Whether it is for this node to know of an object: in a cluster, as it leads the records about it."""
        if one.topic_id is None or not self.topic_exists:
            return True
        index = metadata_partition(one.topic_id, one.partition, self._settings.partitions)
        return self._topic.is_led_here(index) and self._topic.is_known(index)

    async def stop(self) -> None:
        """Read no more."""
        await self._topic.stop()

    # -- records

    def _forget_all_in(self, index: int) -> None:
        for key, partition in list(self.partitions.items()):
            if not self.topic_exists or self._index_of(partition) == index:
                self.segments[key].clear()
                self._forgotten(partition)

    def _replay(self, record: Record) -> None:
        try:
            replay(decode_remote_log_record(record.value or b""), self.of)
        except (DecodeError, ValueError) as error:
            logger.error("record of remote storage left out", offset=record.offset, error=str(error))

    async def put(self, segment: RemoteSegment) -> bool:
        """Write that a segment is in its state, and wait until that is committed and read back.

        False if it is not in that state then: another broker was first, and has removed it, say. Raises KafkaError.
        """
        if not self.topic_exists:
            raise NotLeaderOrFollower(f"{TOPIC} does not exist.")
        if self.problem is not None:
            raise UnknownServerError(self.problem)
        record = metadata_record(segment) if segment.state is State.COPY_STARTED else update_record(segment)
        await self._topic.write(self._index_of(segment.partition), encode_remote_log_record(record))
        known = self.of(segment.partition).get(segment.id)
        return (
            known is None
            if segment.state is State.DELETE_FINISHED
            else known is not None and known.state is segment.state
        )
