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
    from storage.time_lookup import TimestampOffsetEpoch

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

Answers = list[ListOffsetsPartitionResponse]


def handle(ctx: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse | Awaitable[ListOffsetsResponse]:
    """Answers at once unless a lookup by time has to read the log."""
    lookup = Lookup(ctx, request)
    if all(asked.timestamp in (LATEST, EARLIEST) for topic in request.topics for asked in topic.partitions):
        return _response(
            request, [[lookup.at_hand(topic, asked) for asked in topic.partitions] for topic in request.topics]
        )
    return lookup.all()


def error_response(ctx: RequestContext, request: ListOffsetsRequest, error: KafkaError) -> ListOffsetsResponse:
    """The same error for every partition."""
    return _response(
        request, [[_failed(asked.partition_index, error) for asked in topic.partitions] for topic in request.topics]
    )


def _response(request: ListOffsetsRequest, answers: list[Answers]) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        throttle_time=ZERO,
        topics=tuple(
            ListOffsetsTopicResponse(name=topic.name, partitions=tuple(partitions))
            for topic, partitions in zip(request.topics, answers, strict=True)
        ),
    )


class Lookup:
    """One request's lookups, one partition after the other."""

    def __init__(self, ctx: RequestContext, request: ListOffsetsRequest) -> None:
        self._ctx = ctx
        self._request = request
        named = Counter((topic.name, asked.partition_index) for topic in request.topics for asked in topic.partitions)
        self._repeated = {key for key, count in named.items() if count > 1}

    async def all(self) -> ListOffsetsResponse:
        answers = [[await self._one(topic, asked) for asked in topic.partitions] for topic in self._request.topics]
        return _response(self._request, answers)

    def at_hand(self, topic: ListOffsetsTopic, asked: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
        """The first or the last offset, which need no reading."""
        try:
            partition = self._partition(topic, asked)
        except KafkaError as error:
            return _failed(asked.partition_index, error)
        if asked.timestamp == EARLIEST:
            return _at_log_start(partition)
        end = partition.end_offset_for(self._request.isolation_level)
        return _found(asked.partition_index, UNKNOWN_TIMESTAMP, end, partition.leader_epoch)

    async def _one(self, topic: ListOffsetsTopic, asked: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
        if asked.timestamp in (LATEST, EARLIEST):
            return self.at_hand(topic, asked)
        try:
            partition = self._partition(topic, asked)
            if asked.timestamp == EARLIEST_LOCAL:
                return _at_log_start(partition)
            found = await self._by_time(partition, asked.timestamp)
        except KafkaError as error:
            return _failed(asked.partition_index, error)
        if found is None or found.offset >= partition.end_offset_for(self._request.isolation_level):
            return _found(asked.partition_index, UNKNOWN_TIMESTAMP, UNKNOWN_OFFSET, UNKNOWN_EPOCH)
        return _found(asked.partition_index, found.timestamp, found.offset, found.leader_epoch)

    async def _by_time(self, partition: Partition, timestamp: int) -> TimestampOffsetEpoch | None:
        if timestamp == MAX_TIMESTAMP:
            return await partition.log.max_timestamp()
        if timestamp == LATEST_TIERED:
            return None  # nothing is tiered
        if timestamp < 0:
            raise InvalidRequest(f"{timestamp} is no timestamp")
        return await partition.log.offset_for_timestamp(timestamp)

    def _partition(self, topic: ListOffsetsTopic, asked: ListOffsetsPartition) -> Partition:
        """The partition, if the request may be answered at all."""
        if (topic.name, asked.partition_index) in self._repeated:
            raise InvalidRequest("the partition is named twice")
        if self._ctx.version < FIRST_VERSION_OF.get(asked.timestamp, 0):
            raise UnsupportedVersion
        partition = self._ctx.node.partitions.get(topic.name, asked.partition_index)
        if partition is None:
            raise UnknownTopicOrPartition
        partition.check_leader_epoch(asked.current_leader_epoch)
        return partition


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
