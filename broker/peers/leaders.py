"""Questions to other brokers of the cluster, in Kafka's own requests: those brokers may be Apache Kafka's."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any, NamedTuple, TypeVar

from kio.schema.describe_producers.v0.request import DescribeProducersRequest, TopicRequest
from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

from broker.peers.call import Call, PeerError, PeerVersionError, entity_call
from broker.peers.queues import Reach
from protocol.errors import Network, type_by_code
from protocol.schema import Entity
from protocol.topic_partition import PartitionKey, by_topic

T = TypeVar("T")

PATIENCE_MS = 3_000.0
"""How long somebody is asked again, in the machine's time: who has just gone is soon replaced."""

RETRY_MS = 50.0


class NoAnswerError(Network):
    """A broker has given no answer; the message names the broker, and says why."""


class NotServedError(NoAnswerError):
    """A broker does not know the request."""


async def ask(reach: Reach, broker_id: int, request: Entity, *, lowest: int, timeout_ms: float | None = None) -> Any:
    """The answer of a broker, in the newest version of the API that both know. Raises NoAnswerError."""
    return await ask_by(reach, broker_id, entity_call(request, lowest=lowest), timeout_ms)


async def ask_by(reach: Reach, broker_id: int, call: Call[T], timeout_ms: float | None = None) -> T:
    """The same for a request that is written by hand."""
    client = reach(broker_id)
    if client is None:
        raise NoAnswerError(f"broker {broker_id} is not alive")
    try:
        return await client.send(call, timeout_ms)
    except PeerVersionError as error:
        raise NotServedError(f"broker {broker_id}: {error}") from error
    except PeerError as error:
        raise NoAnswerError(f"broker {broker_id} gave no answer: {error}") from error


def check(broker_id: int, code: ErrorCode) -> None:
    """Raises the KafkaError that a broker has answered."""
    if code is not ErrorCode.none:
        error = type_by_code[code]
        raise error(f"broker {broker_id} answers: {error.default_message}")


EARLIEST, LATEST = -2, -1
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
NONE = -1
"""The offset for a time after the last record."""

CLIENT = -1
"""The replica id of a client, which is answered by leaders alone."""

FIRST_WITH_EPOCHS = 4
TIMEOUT = timedelta(seconds=1)
SOON = frozenset(
    {
        ErrorCode.not_leader_or_follower,
        ErrorCode.offset_not_available,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.leader_not_available,
        ErrorCode.fenced_leader_epoch,
    }
)
"""Errors of a leader that is about to change, or has just changed."""


class Unknown(NamedTuple):
    """Why an offset is not known; `passes`: it is likely to be known soon."""

    why: str
    passes: bool


Told = Mapping[PartitionKey, int | Unknown]
"""An offset by partition, or NONE."""


async def ask_offsets(
    reach: Reach, leader: int, keys: Collection[PartitionKey], timestamp: int, isolation_level: int = READ_UNCOMMITTED
) -> Told:
    """The offset that each partition has for a timestamp (EARLIEST, LATEST or a time), as its leader answers."""
    topics = tuple(
        ListOffsetsTopic(
            name=name,
            partitions=tuple(ListOffsetsPartition(partition_index=index, timestamp=timestamp) for index in indexes),
        )
        for name, indexes in by_topic(keys).items()
    )
    request = ListOffsetsRequest(replica_id=CLIENT, isolation_level=isolation_level, topics=topics, timeout=TIMEOUT)
    try:
        answer = await ask(reach, leader, request, lowest=FIRST_WITH_EPOCHS)
    except NoAnswerError as error:
        return dict.fromkeys(keys, Unknown(str(error), passes=True))
    offsets: dict[PartitionKey, int | Unknown] = {
        (topic.name, partition.partition_index): partition.offset
        if partition.error_code is ErrorCode.none
        else _refused(leader, partition)
        for topic in answer.topics
        for partition in topic.partitions
    }
    return {key: offsets.get(key, Unknown(f"broker {leader} left it out of its answer", passes=True)) for key in keys}


def _refused(leader: int, one: object) -> Unknown:
    code: ErrorCode = getattr(one, "error_code")  # noqa: B009 - kio's classes of several versions
    return Unknown(f"broker {leader} answers {code.name.upper()}", code in SOON)


class LogBounds(NamedTuple):
    """The first offset, the last stable offset, and the high watermark."""

    start: int
    stable: int
    end: int


async def ask_bounds(
    reach: Reach, leader: int, keys: Collection[PartitionKey]
) -> dict[PartitionKey, LogBounds | Unknown]:
    """The bounds of partitions, as their leader answers.

    They only grow, and a connection's requests are answered in their order: so they fit each other.
    """
    starts, stables, ends = await asyncio.gather(
        ask_offsets(reach, leader, keys, EARLIEST),
        ask_offsets(reach, leader, keys, LATEST, READ_COMMITTED),
        ask_offsets(reach, leader, keys, LATEST),
    )
    return {key: _bounds(starts[key], stables[key], ends[key]) for key in keys}


def _bounds(start: int | Unknown, stable: int | Unknown, end: int | Unknown) -> LogBounds | Unknown:
    for one in (start, stable, end):
        if isinstance(one, Unknown):
            return one
    assert isinstance(start, int) and isinstance(stable, int) and isinstance(end, int)
    return LogBounds(start, stable, end)


async def ask_open_producers(
    reach: Reach, leader: int, keys: Collection[PartitionKey]
) -> dict[PartitionKey, dict[int, int]]:
    """The producers of open transactions by first offset; a partition that is not answered is left out."""
    topics = tuple(
        TopicRequest(name=name, partition_indexes=tuple(indexes)) for name, indexes in by_topic(keys).items()
    )
    try:
        answer = await ask(reach, leader, DescribeProducersRequest(topics=topics), lowest=0)
    except NoAnswerError:
        return {}
    return {
        (topic.name, partition.partition_index): {
            first: producer_id
            for first, producer_id in sorted(
                (producer.current_txn_start_offset, producer.producer_id) for producer in partition.active_producers
            )
            if first >= 0
        }
        for topic in answer.topics
        for partition in topic.partitions
        if partition.error_code is ErrorCode.none
    }
