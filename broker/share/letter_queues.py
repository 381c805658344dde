"""The topics that dead letters are written to: which may be used, which are created, and where they are led."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial

from kio.schema.errors import ErrorCode
from kio.schema.produce.v9 import ProduceRequest
from kio.schema.produce.v9.request import PartitionProduceData, TopicProduceData

from broker.coordinators.hosted import Host
from broker.membership.auto_create import wanted
from broker.peers.call import PeerError, entity_call
from broker.replication.waits import until_committed
from metadata.configs import ResourceType
from metadata.topics import TopicImage
from protocol.errors import (
    FencedLeaderEpoch,
    KafkaStorage,
    LeaderNotAvailable,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    Timeout,
    UnknownTopicOrPartition,
    type_by_code,
)
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
        if cache.image.configs.of(ResourceType.TOPIC, name).get(ENABLE) != "true":
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
        found = answer.responses[0].partition_responses[0]
        if found.error_code is not ErrorCode.none:
            raise type_by_code[ErrorCode(found.error_code)](found.error_message)
