"""Dead letter queues of share groups (KIP-1191): what becomes of records that are given up.

A letter needs a queue that the group names, that exists or may be created, that allows it
(`errors.deadletterqueue.group.enable`), and whose name begins with the broker's prefix. If anything is amiss the
records are given up all the same, with a line in the log. A letter is written to where its partition of the queue is
led, here or on another broker. Imported when the first letter is written.
"""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial

import structlog
from kio.schema.errors import ErrorCode
from kio.schema.produce.v9 import ProduceRequest
from kio.schema.produce.v9.request import PartitionProduceData, TopicProduceData

from broker.config.resource_configs import topic_value
from broker.coordinators.hosted import Host
from broker.membership.auto_create import wanted
from broker.peers.call import PeerError, entity_call
from broker.replication.partition import Partition
from broker.replication.waits import until_committed
from broker.share.record_batches import batches_of
from broker.share.runs import LetterCause, Run
from broker.share.settings import AllShareSettings, ShareSettings
from metadata.configs import ResourceType
from metadata.topics import TopicImage
from protocol.coordinator_records.share_records import SharePartitionKey
from protocol.errors import (
    FencedLeaderEpoch,
    KafkaError,
    KafkaStorage,
    LeaderNotAvailable,
    MessageTooLarge,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    RecordBatchTooLarge,
    Timeout,
    UnknownTopicOrPartition,
    type_by_code,
)
from protocol.records.build import Record, build_batch, iter_records
from storage.append_types import AppendOrigin

ENABLE = "errors.deadletterqueue.group.enable"
PREFIX = "errors.deadletterqueue.topic.name.prefix"
AUTO_CREATE = "errors.deadletterqueue.auto.create.topics.enable"
TIMEOUT = timedelta(seconds=30)

MOST_ATTEMPTS = 5
RETRY_MS = 1_000
PASSING = (
    FencedLeaderEpoch,
    KafkaStorage,
    LeaderNotAvailable,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    Timeout,
)
"""Errors after which a letter is sent again: another broker leads the queue, or soon will."""

AppendBatch = Callable[[bytes], Awaitable[None]]
"""Appends a record batch to a partition. Raises KafkaErrors."""

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
    contents: dict[int, tuple[bytes | None, bytes | None]] = {}
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
                        contents[record.offset] = record.key, record.value
        offset = batches[-1].last + 1
    return contents


class LetterQueues:
    """Finds the partition of a queue, on this node or another."""

    def __init__(self, host: Host) -> None:
        self._host = host

    async def partition(self, name: str, index: int) -> AppendBatch:
        """The partition with this number, modulo their count. Raises KafkaError that says what is amiss."""
        topic = await self._topic(name)
        return partial(self._append, name, index % topic.partition_count)

    async def _append(self, name: str, index: int, batch: bytes) -> None:
        """Append to where the partition is led now, and a few times more after errors that pass."""
        for _ in range(MOST_ATTEMPTS - 1):
            try:
                return await self._append_once(name, index, batch)
            except PASSING:
                await self._host.clock.machine.sleep(RETRY_MS)
        return await self._append_once(name, index, batch)

    async def _append_once(self, name: str, index: int, batch: bytes) -> None:
        topic = self._host.cache.topic(name)
        if topic is None:
            raise UnknownTopicOrPartition(f"There is no topic {name}.")
        leader = topic.partitions[index].leader
        if leader == self._host.node_id:
            await self._append_here(name, index, batch)
        else:
            await self._append_elsewhere(leader, name, index, batch)

    async def _topic(self, name: str) -> TopicImage:
        config, cache = self._host.current.config, self._host.cache
        prefix = config.string(PREFIX)
        if not name.startswith(prefix):
            raise UnknownTopicOrPartition(f"The name of a dead letter queue begins with {prefix} ({PREFIX}).")
        if cache.topic(name) is None and config.boolean(AUTO_CREATE):
            await self._host.auto_topics.ensure(wanted(name, configs={ENABLE: "true"}), "dead letter queue created")
        topic = cache.topic(name)
        if topic is None:
            raise UnknownTopicOrPartition(f"There is no topic {name}.")
        if not topic_value(cache.image.configs.of(ResourceType.TOPIC, name), ENABLE):
            raise UnknownTopicOrPartition(f"Topic {name} is no dead letter queue: set {ENABLE}=true on it.")
        return topic

    async def _append_here(self, name: str, index: int, batch: bytes) -> None:
        partition = self._host.replicas.find(name, index)
        info = partition.append(memoryview(bytearray(batch)), AppendOrigin.CLIENT, self._host.clock.wall_ms())
        committed = until_committed(partition, info.last_offset + 1, self._host.wheel)
        if committed is not None:
            await committed

    async def _append_elsewhere(self, leader: int, name: str, index: int, batch: bytes) -> None:
        client = self._host.brokers.reach(leader)
        if client is None:
            raise LeaderNotAvailable(f"Broker {leader}, which leads {name}-{index}, is away.")
        data = TopicProduceData(name=name, partition_data=(PartitionProduceData(index=index, records=batch),))
        request = ProduceRequest(transactional_id=None, acks=-1, timeout=TIMEOUT, topic_data=(data,))
        try:
            answer = await client.send(entity_call(request))
        except PeerError as error:
            raise LeaderNotAvailable(str(error)) from error
        result = answer.responses[0].partition_responses[0]
        if result.error_code is not ErrorCode.none:
            raise type_by_code[ErrorCode(result.error_code)](result.error_message)
