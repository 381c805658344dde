"""ListOffsets 1-11 (KIP-79, KIP-207, KIP-320, KIP-405, KIP-734, KIP-1005, KIP-1023)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Sequence

from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsRequest
from kio.schema.list_offsets.v11.response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

from broker.replicas.partition import READ_COMMITTED, READ_UNCOMMITTED, Partition
from broker.request_context import RequestContext
from protocol.durations import ZERO
from protocol.errors import (
    InvalidRequest,
    KafkaError,
    LeaderNotAvailable,
    OffsetNotAvailable,
    UnknownServerError,
    UnsupportedVersion,
)
from protocol.topic_partition import by_topic
from storage.log import time_lookup
from storage.log.time_lookup import TimestampOffsetEpoch

UNKNOWN_OFFSET = -1
UNKNOWN_TIMESTAMP = -1
UNKNOWN_EPOCH = -1

CONSUMER, DEBUGGER = -1, -2
"""The replica ids of a client and of debugging tools, which followers answer too; brokers send their own id."""

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6

FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE = 5
FIRST_VERSION_OF = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}

Place = tuple[str, ListOffsetsPartition]
"""A topic's name and what is asked of one of its partitions."""


def list_offsets(
    ctx: RequestContext, request: ListOffsetsRequest
) -> ListOffsetsResponse | Awaitable[ListOffsetsResponse]:
    """Answer at once unless a lookup by time has to read the log."""
    if request.isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
        raise UnknownServerError
    lookup = Lookup(ctx, request)
    if any(asked.timestamp not in (LATEST, EARLIEST) for _, asked in lookup.places):
        return lookup.by_reading()
    return lookup.at_once()


class Lookup:
    """One request's lookups, one partition after the other.

    A partition that is named twice is refused once, as in Kafka.
    """

    def __init__(self, ctx: RequestContext, request: ListOffsetsRequest) -> None:
        self._ctx = ctx
        self._isolation_level = request.isolation_level
        self._replica_id = request.replica_id
        named = [(topic.name, asked) for topic in request.topics for asked in topic.partitions]
        times = Counter((name, asked.partition_index) for name, asked in named)
        self.places: list[Place] = [(name, asked) for name, asked in named if times[name, asked.partition_index] == 1]
        self._repeated = [key for key, count in times.items() if count > 1]

    def at_once(self) -> ListOffsetsResponse:
        return self.response([self._without_reading(place) for place in self.places])

    async def by_reading(self) -> ListOffsetsResponse:
        return self.response([await self._one(place) for place in self.places])

    def response(self, answers: Sequence[ListOffsetsPartitionResponse]) -> ListOffsetsResponse:
        """The answers to `places`, then the refusals."""
        results = {
            (name, asked.partition_index): answer for (name, asked), answer in zip(self.places, answers, strict=True)
        }
        results |= {(name, index): _failed(index, InvalidRequest()) for name, index in self._repeated}
        return ListOffsetsResponse(
            throttle_time=ZERO,
            topics=tuple(
                ListOffsetsTopicResponse(name=name, partitions=tuple(results[name, index] for index in indexes))
                for name, indexes in by_topic(results).items()
            ),
        )

    def _without_reading(self, place: Place) -> ListOffsetsPartitionResponse:
        """The first or the last offset, for which nothing needs to be read."""
        asked = place[1]
        try:
            partition = self._partition(place)
            if asked.timestamp == EARLIEST:
                return _at_log_start(partition)
            end = self._end(partition)
        except KafkaError as error:
            return _failed(asked.partition_index, error)
        return _found(asked.partition_index, UNKNOWN_TIMESTAMP, end, partition.leader_epoch)

    async def _one(self, place: Place) -> ListOffsetsPartitionResponse:
        asked = place[1]
        if asked.timestamp in (LATEST, EARLIEST):
            return self._without_reading(place)
        try:
            partition = self._partition(place)
            if asked.timestamp == EARLIEST_LOCAL:
                return _at_log_start(partition)
            found = await _by_time(partition, asked.timestamp)
            self._check_leader(partition, asked)  # it may be led elsewhere by now
            if found is None or found.offset >= self._end(partition):
                return _found(asked.partition_index, UNKNOWN_TIMESTAMP, UNKNOWN_OFFSET, UNKNOWN_EPOCH)
        except KafkaError as error:
            return _failed(asked.partition_index, error)
        return _found(asked.partition_index, found.timestamp, found.offset, found.leader_epoch)

    def _end(self, partition: Partition) -> int:
        """The end of the log as the client sees it; replicas and debugging tools see all of it.

        Raises OffsetNotAvailable while a new leader does not know yet what is committed (LeaderNotAvailable for clients
        that do not know that error), and KafkaStorage.
        """
        if self._replica_id != CONSUMER:
            return partition.log.log_end_offset
        try:
            partition.check_end_is_known()
        except OffsetNotAvailable:
            if self._ctx.version < FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE:
                raise LeaderNotAvailable from None
            raise
        return partition.end_offset_for(self._isolation_level)

    def _partition(self, place: Place) -> Partition:
        """The partition, if the request may be answered for it at all."""
        topic, asked = place
        if asked.timestamp < EARLIEST_PENDING_UPLOAD or self._ctx.version < FIRST_VERSION_OF.get(asked.timestamp, 0):
            raise UnsupportedVersion
        partition = self._ctx.replicas.find(topic, asked.partition_index)
        self._check_leader(partition, asked)
        return partition

    def _check_leader(self, partition: Partition, asked: ListOffsetsPartition) -> None:
        partition.check_leader_epoch(asked.current_leader_epoch, only_leader=self._replica_id != DEBUGGER)


async def _by_time(partition: Partition, timestamp: int) -> TimestampOffsetEpoch | None:
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return None  # nothing is tiered
    if timestamp == MAX_TIMESTAMP:
        return await time_lookup.largest(partition.log)
    return await time_lookup.first_at_or_after(partition.log, timestamp)


def _at_log_start(partition: Partition) -> ListOffsetsPartitionResponse:
    start = partition.log_start_offset
    epoch = partition.log.leader_epochs.epoch_for(start)
    return _found(partition.index, UNKNOWN_TIMESTAMP, start, epoch)


def _found(index: int, timestamp: int, offset: int, epoch: int) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(
        partition_index=index, error_code=ErrorCode.none, timestamp=timestamp, offset=offset, leader_epoch=epoch
    )


def _failed(index: int, error: KafkaError) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=index, error_code=error.code)
