"""ListOffsets 1-10 (KIP-79, KIP-207, KIP-320, KIP-405, KIP-734, KIP-1005)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable
from datetime import timedelta
from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v10.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kio.schema.list_offsets.v10.response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

from broker.context import RequestContext
from protocol.errors import InvalidRequest, KafkaError, UnknownTopicOrPartition, UnsupportedVersion

if TYPE_CHECKING:
    from broker.partition import Partition

ONLY_READS = True
ZERO = timedelta(0)
UNKNOWN_OFFSET = -1
UNKNOWN_TIMESTAMP = -1
UNKNOWN_EPOCH = -1

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5

FIRST_VERSION_OF = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}

Answers = list[ListOffsetsTopicResponse]


def handle(ctx: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse | Awaitable[ListOffsetsResponse]:
    """Answers at once unless a lookup by time has to read the log."""
    if all(asked.timestamp in (LATEST, EARLIEST) for topic in request.topics for asked in topic.partitions):
        return _response(
            [
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=tuple(_at_hand(ctx, request, topic, asked) for asked in topic.partitions),
                )
                for topic in request.topics
            ]
        )
    return _look_up(ctx, request)


def error_response(ctx: RequestContext, request: ListOffsetsRequest, error: KafkaError) -> ListOffsetsResponse:
    """The same error for every partition."""
    return _response(
        [
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=tuple(_failed(asked.partition_index, error) for asked in topic.partitions),
            )
            for topic in request.topics
        ]
    )


def _response(topics: Answers) -> ListOffsetsResponse:
    return ListOffsetsResponse(throttle_time=ZERO, topics=tuple(topics))


async def _look_up(ctx: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
    topics: Answers = []
    for topic in request.topics:
        answers = [await _one(ctx, request, topic, asked) for asked in topic.partitions]
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=tuple(answers)))
    return _response(topics)


async def _one(
    ctx: RequestContext, request: ListOffsetsRequest, topic: ListOffsetsTopic, asked: ListOffsetsPartition
) -> ListOffsetsPartitionResponse:
    if asked.timestamp in (LATEST, EARLIEST):
        return _at_hand(ctx, request, topic, asked)
    try:
        partition = _partition(ctx, request, topic, asked)
        match asked.timestamp:
            case -4:
                return _at_log_start(partition)
            case -5:
                # Nothing is tiered, so the last tiered offset does not exist.
                return _found(asked.partition_index, UNKNOWN_TIMESTAMP, UNKNOWN_OFFSET, UNKNOWN_EPOCH)
            case -3:
                found = await partition.log.max_timestamp()
            case timestamp if timestamp < 0:
                raise InvalidRequest(f"{timestamp} is no timestamp")
            case timestamp:
                found = await partition.log.offset_for_timestamp(timestamp)
        end = partition.end_offset_for(request.isolation_level)
        if found is None or found.offset >= end:
            return _found(asked.partition_index, UNKNOWN_TIMESTAMP, UNKNOWN_OFFSET, UNKNOWN_EPOCH)
        return _found(asked.partition_index, found.timestamp, found.offset, found.leader_epoch)
    except KafkaError as error:
        return _failed(asked.partition_index, error)


def _at_hand(
    ctx: RequestContext, request: ListOffsetsRequest, topic: ListOffsetsTopic, asked: ListOffsetsPartition
) -> ListOffsetsPartitionResponse:
    try:
        partition = _partition(ctx, request, topic, asked)
    except KafkaError as error:
        return _failed(asked.partition_index, error)
    if asked.timestamp == EARLIEST:
        return _at_log_start(partition)
    end = partition.end_offset_for(request.isolation_level)
    return _found(asked.partition_index, UNKNOWN_TIMESTAMP, end, partition.leader_epoch)


def _partition(
    ctx: RequestContext, request: ListOffsetsRequest, topic: ListOffsetsTopic, asked: ListOffsetsPartition
) -> Partition:
    """The partition, if the request may be answered at all."""
    if (topic.name, asked.partition_index) in _repeated(request):
        raise InvalidRequest("the partition is named twice")
    if ctx.version < FIRST_VERSION_OF.get(asked.timestamp, 0):
        raise UnsupportedVersion
    partition = ctx.node.partitions.get(topic.name, asked.partition_index)
    if partition is None:
        raise UnknownTopicOrPartition
    partition.check_leader_epoch(asked.current_leader_epoch)
    return partition


def _repeated(request: ListOffsetsRequest) -> set[tuple[str, int]]:
    named = Counter((topic.name, asked.partition_index) for topic in request.topics for asked in topic.partitions)
    return {key for key, count in named.items() if count > 1}


def _at_log_start(partition: Partition) -> ListOffsetsPartitionResponse:
    start = partition.log_start_offset
    epoch = partition.log.leader_epochs.epoch_for(start)
    return _found(partition.index, UNKNOWN_TIMESTAMP, start, UNKNOWN_EPOCH if epoch is None else epoch)


def _found(index: int, timestamp: int, offset: int, epoch: int) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(
        partition_index=index, error_code=ErrorCode.none, timestamp=timestamp, offset=offset, leader_epoch=epoch
    )


def _failed(index: int, error: KafkaError) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=index, error_code=error.code)
