"""Dead letter queues of share groups (KIP-1191): what becomes of records that are given up.

A letter needs a queue that the group names, that exists or may be created, that allows it
(`errors.deadletterqueue.group.enable`), and whose name begins with the broker's prefix. If anything is amiss the
records are given up all the same, with a line in the log.
"""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Sequence

import structlog

from broker.coordinators.hosted import Host
from broker.replication.partition import Partition
from broker.share.letter_queues import AppendBatch, LetterQueues
from broker.share.record_batches import batches_of
from broker.share.record_states import LetterCause
from broker.share.runs import Run
from broker.share.settings import AllShareSettings, ShareSettings
from metadata.topics import TopicImage
from protocol.coordinator_records.share_records import SharePartitionKey
from protocol.errors import KafkaError, MessageTooLarge, RecordBatchTooLarge, UnknownTopicOrPartition
from protocol.records.build import Record, build_batch, iter_records

logger = structlog.get_logger(__name__)

MESSAGES = {
    LetterCause.REJECTED: b"Offset rejected by client.",
    LetterCause.TOO_MANY_DELIVERIES: b"Offset delivery count exceeded the threshold.",
}
READ_BYTES = 1 << 20


class DeadLetterQueues:
    """Writes letters to the partition of the queue with the number of the records' own, modulo its partitions."""

    def __init__(self, host: Host, settings: AllShareSettings) -> None:
        self._queues = LetterQueues(host)
        self._cache = host.cache
        self._replicas = host.replicas
        self._settings = settings
        self._clock = host.clock

    def write(self, key: SharePartitionKey, runs: Sequence[tuple[Run, LetterCause]]) -> Future[None]:
        """Done when all letters are written, or cannot be; never fails."""
        return asyncio.ensure_future(
            self._write(key, [(run.first, run.last, run.delivery_count, cause) for run, cause in runs])
        )

    async def _write(self, key: SharePartitionKey, runs: Sequence[tuple[int, int, int, LetterCause]]) -> None:
        settings = self._settings.of(key.group_id)
        try:
            append = await self._queues.partition(settings.dead_letters, key.partition)
            source = self._source(key)
            for first, last, deliveries, cause in runs:
                letters = await self._letters(key, source, settings, (first, last, deliveries, cause))
                await _append(append, letters)
        except (KafkaError, OSError, ValueError) as error:  # also of a disk, or of what a producer has compressed
            logger.warning(
                "records given up without a dead letter",
                group=key.group_id,
                queue=settings.dead_letters,
                error=str(error),
            )

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


async def _append(append: AppendBatch, letters: Sequence[Record]) -> None:
    """Append the letters in one batch; one by one, without what they copied, if that is too large."""
    try:
        await append(bytes(build_batch(letters)))
    except (MessageTooLarge, RecordBatchTooLarge):
        for letter in letters:
            await _append_alone(append, letter._replace(offset=0))


async def _append_alone(append: AppendBatch, letter: Record) -> None:
    try:
        await append(bytes(build_batch([letter])))
    except (MessageTooLarge, RecordBatchTooLarge):
        await append(bytes(build_batch([letter._replace(key=None, value=None)])))


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
