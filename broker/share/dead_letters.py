"""Dead letter queues of share groups (KIP-1191): what becomes of records that are given up.

A letter needs a queue that the group names, that exists and allows it (`errors.deadletterqueue.group.enable`), and
whose name begins with the broker's prefix. If anything is amiss the records are given up all the same, with a line in
the log.
"""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Sequence

import structlog

from broker.cluster.metadata_cache import MetadataCache
from broker.config.current import CurrentConfig
from broker.replicas.partition import Partition
from broker.replicas.replica_manager import ReplicaManager
from broker.share.record_batches import batches_of
from broker.share.record_states import LetterCause
from broker.share.runs import Run
from broker.share.settings import AllShareSettings, ShareSettings
from metadata.configs import ResourceType
from metadata.topics import TopicImage
from protocol.coordinator_records.share_records import SharePartitionKey
from protocol.errors import KafkaError, MessageTooLarge, RecordBatchTooLarge, UnknownTopicOrPartition
from protocol.records.build import Record, build_batch, iter_records
from storage.append_types import AppendOrigin
from timing.clock import Clock

logger = structlog.get_logger(__name__)

ENABLE = "errors.deadletterqueue.group.enable"
PREFIX = "errors.deadletterqueue.topic.name.prefix"
MESSAGES = {
    LetterCause.REJECTED: b"Offset rejected by client.",
    LetterCause.TOO_MANY_DELIVERIES: b"Offset delivery count exceeded the threshold.",
}
READ_BYTES = 1 << 20


class DeadLetterQueues:
    """Writes letters to the partition of the queue with the number of the records' own, modulo its partitions."""

    def __init__(
        self,
        current: CurrentConfig,
        cache: MetadataCache,
        replicas: ReplicaManager,
        settings: AllShareSettings,
        clock: Clock,
    ) -> None:
        self._current = current
        self._cache = cache
        self._replicas = replicas
        self._settings = settings
        self._clock = clock

    def write(self, key: SharePartitionKey, runs: Sequence[tuple[Run, LetterCause]]) -> Future[None]:
        """Done when all letters are written, or cannot be; never fails."""
        return asyncio.ensure_future(
            self._write(key, [(run.first, run.last, run.delivery_count, cause) for run, cause in runs])
        )

    async def _write(self, key: SharePartitionKey, runs: Sequence[tuple[int, int, int, LetterCause]]) -> None:
        settings = self._settings.of(key.group_id)
        try:
            queue = self._queue(settings.dead_letters, key.partition)
            source = self._source(key)
            for first, last, deliveries, cause in runs:
                letters = await self._letters(key, source, settings, (first, last, deliveries, cause))
                self._append(queue, letters)
        except KafkaError as error:
            logger.warning(
                "records given up without a dead letter",
                group=key.group_id,
                queue=settings.dead_letters,
                error=str(error),
            )

    def _queue(self, name: str, index: int) -> Partition:
        """Raises KafkaError that says what is amiss."""
        topic = self._cache.topic(name)
        if topic is None:
            raise UnknownTopicOrPartition(f"There is no topic {name}.")
        prefix = self._current.config.string(PREFIX)
        if not name.startswith(prefix):
            raise UnknownTopicOrPartition(f"The name of a dead letter queue begins with {prefix} ({PREFIX}).")
        if self._cache.image.configs.of(ResourceType.TOPIC, name).get(ENABLE) != "true":
            raise UnknownTopicOrPartition(f"Topic {name} is no dead letter queue: set {ENABLE}=true on it.")
        return self._replicas.find(name, index % topic.partition_count)

    def _source(self, key: SharePartitionKey) -> tuple[TopicImage, Partition]:
        topic = self._cache.topic_by_id(key.topic_id)
        if topic is None:
            raise UnknownTopicOrPartition
        return topic, self._replicas.find(topic.name, key.partition)

    async def _letters(
        self,
        key: SharePartitionKey,
        source: tuple[TopicImage, Partition],
        settings: ShareSettings,
        run: tuple[int, int, int, LetterCause],
    ) -> list[Record]:
        topic, partition = source
        first, last, deliveries, cause = run
        copies = await _contents(partition, first, last) if settings.copies_records else {}
        now_ms = self._clock.wall_ms()
        letters: list[Record] = []
        for offset in range(first, last + 1):
            headers = (
                (b"__dlq.errors.topic", topic.name.encode()),
                (b"__dlq.errors.partition", str(key.partition).encode()),
                (b"__dlq.errors.offset", str(offset).encode()),
                (b"__dlq.errors.group", key.group_id.encode()),
                (b"__dlq.errors.delivery.count", str(deliveries).encode()),
                (b"__dlq.errors.message", MESSAGES[cause]),
            )
            record_key, value = copies.get(offset, (None, None))
            letters.append(Record(len(letters), now_ms, record_key, value, headers))
        return letters

    def _append(self, queue: Partition, letters: Sequence[Record]) -> None:
        """Append the letters in one batch; one by one, without what they copied, if that is too large."""
        now_ms = self._clock.wall_ms()
        try:
            queue.append(memoryview(build_batch(letters)), AppendOrigin.CLIENT, now_ms)
        except (MessageTooLarge, RecordBatchTooLarge):
            for letter in letters:
                self._append_alone(queue, letter._replace(offset=0), now_ms)

    def _append_alone(self, queue: Partition, letter: Record, now_ms: int) -> None:
        try:
            queue.append(memoryview(build_batch([letter])), AppendOrigin.CLIENT, now_ms)
        except (MessageTooLarge, RecordBatchTooLarge):
            bare = letter._replace(key=None, value=None)
            queue.append(memoryview(build_batch([bare])), AppendOrigin.CLIENT, now_ms)


async def _contents(partition: Partition, first: int, last: int) -> dict[int, tuple[bytes | None, bytes | None]]:
    """Keys and values by offset."""
    found: dict[int, tuple[bytes | None, bytes | None]] = {}
    offset = first
    while offset <= last:
        log = partition.log
        data = memoryview(await log.plan_read(offset, READ_BYTES, log.end, True).read())
        batches = batches_of(data)
        if not batches:
            break
        for batch in batches:
            if not batch.header.is_control:
                for record in iter_records(data, batch.header, batch.begin):
                    if first <= record.offset <= last:
                        found[record.offset] = record.key, record.value
        offset = batches[-1].last + 1
    return found
