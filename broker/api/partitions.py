"""What the log of a partition holds: offsets by time, ends of leader epochs, and the deletion of records.

ListOffsets 1-11 (KIP-79, KIP-207, KIP-320, KIP-405, KIP-734, KIP-1005, KIP-1023).

OffsetForLeaderEpoch 2-4 (KIP-101, KIP-320; Kafka's `ReplicaManager.lastOffsetForLeaderEpoch`).

DeleteRecords 0-2 (KIP-107; Kafka's `ReplicaManager.deleteRecords`).

The answer waits until the followers that are alive have deleted the records too, for the request's timeout at most.

Deviation: the new log start offsets are on disk before the answer; Kafka writes them within a minute.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from kio.schema.delete_records.v2.request import DeleteRecordsRequest
from kio.schema.delete_records.v2.response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsRequest
from kio.schema.list_offsets.v11.response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kio.schema.offset_for_leader_epoch.v4 import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from kio.schema.offset_for_leader_epoch.v4.request import OffsetForLeaderPartition
from kio.schema.offset_for_leader_epoch.v4.response import EpochEndOffset, OffsetForLeaderTopicResult

from broker.replication import log_maintenance as records_delete
from broker.replication.log_maintenance import DelayedDelete, RecordDeletion
from broker.replication.partition import READ_COMMITTED, READ_UNCOMMITTED, Partition, Role
from broker.request_context import RequestContext
from metadata.topic_names import INTERNAL_TOPICS
from protocol.durations import MILLISECOND, ZERO
from protocol.errors import (
    InvalidRequest,
    InvalidTopic,
    KafkaError,
    KafkaStorage,
    LeaderNotAvailable,
    NotLeaderOrFollower,
    OffsetNotAvailable,
    Timeout,
    UnsupportedVersion,
)
from protocol.topic_partition import PartitionKey, TopicPartition, by_topic
from storage.log import time_lookup
from storage.log.log_segments import TimestampOffsetEpoch

if TYPE_CHECKING:
    from broker.replication.replica_manager import ReplicaManager
    from storage.log.unified_log import UnifiedLog


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
        raise InvalidRequest
    lookup = Lookup(ctx, request)
    if any(asked.timestamp not in (LATEST, EARLIEST) for _, asked in lookup.places):
        return lookup.by_reading()
    return lookup.at_once()


class Lookup:
    """One request's lookups. Those that read go on side by side: remote storage may take its time over each.

    A partition that is named twice is refused once, as in Kafka.
    """

    def __init__(self, ctx: RequestContext, request: ListOffsetsRequest) -> None:
        self._ctx = ctx
        self._isolation_level = request.isolation_level
        self._replica_id = request.replica_id
        self._timeout_ms = request.timeout // MILLISECOND
        named = [(topic.name, asked) for topic in request.topics for asked in topic.partitions]
        times = Counter((name, asked.partition_index) for name, asked in named)
        self.places: list[Place] = [(name, asked) for name, asked in named if times[name, asked.partition_index] == 1]
        self._repeated = [key for key, count in times.items() if count > 1]

    def at_once(self) -> ListOffsetsResponse:
        return self.response([self._without_reading(place) for place in self.places])

    async def by_reading(self) -> ListOffsetsResponse:
        return self.response(await asyncio.gather(*map(self._one, self.places)))

    def response(self, answers: Sequence[ListOffsetsPartitionResponse]) -> ListOffsetsResponse:
        """The answers to `places`, then the refusals."""
        results = {
            (name, asked.partition_index): answer for (name, asked), answer in zip(self.places, answers, strict=True)
        }
        results |= {(name, index): _list_offsets_failed(index, InvalidRequest()) for name, index in self._repeated}
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
            return _list_offsets_failed(asked.partition_index, error)
        return _found(asked.partition_index, UNKNOWN_TIMESTAMP, end, partition.leader_epoch)

    async def _one(self, place: Place) -> ListOffsetsPartitionResponse:
        asked = place[1]
        if asked.timestamp in (LATEST, EARLIEST):
            return self._without_reading(place)
        try:
            partition = self._partition(place)
            if asked.timestamp == EARLIEST_LOCAL:
                return _at(partition, partition.log.local_log_start_offset)
            if asked.timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
                found = _of_tier(partition.log, asked.timestamp)
            else:
                found = await self._by_time(partition, asked.timestamp)
                self._check_leader(partition, asked)  # it may be led elsewhere by now
            if found is None or found.offset >= self._end(partition):
                return _found(asked.partition_index, UNKNOWN_TIMESTAMP, UNKNOWN_OFFSET, UNKNOWN_EPOCH)
        except KafkaError as error:
            return _list_offsets_failed(asked.partition_index, error)
        return _found(asked.partition_index, found.timestamp, found.offset, found.leader_epoch)

    async def _by_time(self, partition: Partition, timestamp: int) -> TimestampOffsetEpoch | None:
        log = partition.log
        if timestamp == MAX_TIMESTAMP:
            return await time_lookup.largest(log)
        if log.local_log_start_offset > log.log_start_offset:
            from broker.api.cold_lookup import first_in_remote_storage

            found = await first_in_remote_storage(self._ctx, log, timestamp, self._timeout_ms)
            if found is not None:
                return found
        return await time_lookup.first_at_or_after(log, timestamp)

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


def _at_log_start(partition: Partition) -> ListOffsetsPartitionResponse:
    return _at(partition, partition.log_start_offset)


def _at(partition: Partition, offset: int) -> ListOffsetsPartitionResponse:
    return _found(partition.index, UNKNOWN_TIMESTAMP, offset, partition.log.leader_epochs.epoch_for(offset))


def _of_tier(log: UnifiedLog, asked: int) -> TimestampOffsetEpoch | None:
    """The last offset in remote storage, or the next to be copied; None if not known (KIP-405, KIP-1005, KIP-1023)."""
    highest = log.tier.highest_offset
    is_known = highest >= 0 or (asked != LATEST_TIERED and log.local_log_start_offset == log.log_start_offset)
    if not log.config.remote_storage or not is_known:
        return None
    offset = highest if asked == LATEST_TIERED else max(highest + 1, log.log_start_offset)
    return TimestampOffsetEpoch(UNKNOWN_TIMESTAMP, offset, log.leader_epochs.epoch_for(offset))


def _found(index: int, timestamp: int, offset: int, epoch: int) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(
        partition_index=index, error_code=ErrorCode.none, timestamp=timestamp, offset=offset, leader_epoch=epoch
    )


def _list_offsets_failed(index: int, error: KafkaError) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=index, error_code=error.code)


def offset_for_leader_epoch(ctx: RequestContext, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        throttle_time=ZERO,
        topics=tuple(
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=tuple(_answer(ctx.replicas, topic.topic, wanted) for wanted in topic.partitions),
            )
            for topic in request.topics
        ),
    )


def _answer(partitions: ReplicaManager, topic: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        partition = partitions.find(topic, wanted.partition)
        partition.check_leader_epoch(wanted.current_leader_epoch)
    except KafkaError as error:
        return _offset_for_leader_epoch_failed(wanted, error)
    epoch, end_offset = partition.end_offset_for_epoch(wanted.leader_epoch)
    return EpochEndOffset(
        error_code=ErrorCode.none, partition=wanted.partition, leader_epoch=epoch, end_offset=end_offset
    )


def _offset_for_leader_epoch_failed(wanted: OffsetForLeaderPartition, error: KafkaError) -> EpochEndOffset:
    return EpochEndOffset(error_code=error.code, partition=wanted.partition)


INVALID_LOW_WATERMARK = -1


async def delete_records(ctx: RequestContext, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    """Delete the records. A partition named twice is answered once, for its last offset, as in Kafka."""
    wanted = {
        (topic.name, asked.partition_index): asked.offset for topic in request.topics for asked in topic.partitions
    }
    return _response(await raise_log_starts(ctx.replicas, wanted, request.timeout // MILLISECOND))


async def raise_log_starts(
    replicas: ReplicaManager, wanted: Mapping[PartitionKey, int], timeout_ms: int = 0
) -> dict[PartitionKey, DeleteRecordsPartitionResult]:
    """Raise the starts of these partitions to these offsets (-1: the high watermark).

    Followers have `timeout_ms` to do the same.
    """
    results: dict[PartitionKey, DeleteRecordsPartitionResult] = {}
    moved: list[Partition] = []
    deletions: list[RecordDeletion] = []
    for (name, index), offset in wanted.items():
        try:
            partition = _partition(replicas, name, index)
            deletions.append(RecordDeletion(partition, records_delete.delete_records(partition, offset)))
        except KafkaError as error:
            results[name, index] = _delete_records_failed(index, error)
            continue
        moved.append(partition)
        results[name, index] = _deleted(partition)
    if moved:
        await _make_durable(replicas, moved, results)
    made_durable = [deletion for deletion in deletions if results[deletion.partition.key].error_code is ErrorCode.none]
    waiting = [deletion for deletion in made_durable if not deletion.is_done]
    if waiting:
        await _wait_for_followers(replicas, waiting, timeout_ms)
        results |= {deletion.partition.key: _after_wait(deletion) for deletion in waiting}
    return results


def _deleted(partition: Partition) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(
        partition_index=partition.index, low_watermark=partition.low_watermark, error_code=ErrorCode.none
    )


async def _wait_for_followers(replicas: ReplicaManager, deletions: list[RecordDeletion], timeout_ms: int) -> None:
    ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    operation = DelayedDelete(deletions, ready)
    keys = [deletion.partition.key for deletion in deletions]
    replicas.delete_purgatory.try_complete_else_watch(operation, keys, max(timeout_ms, 0))
    try:
        await ready
    finally:
        operation.force_complete()


def _after_wait(deletion: RecordDeletion) -> DeleteRecordsPartitionResult:
    partition = deletion.partition
    if deletion.is_done:
        return _deleted(partition)
    return _delete_records_failed(
        partition.index, Timeout() if partition.role is Role.LEADER else NotLeaderOrFollower()
    )


def _partition(replicas: ReplicaManager, name: str, index: int) -> Partition:
    partition = replicas.find(name, index)
    if name in INTERNAL_TOPICS:
        raise InvalidTopic(f"Cannot delete records of internal topic {name}")
    return partition


async def _make_durable(
    replicas: ReplicaManager, moved: list[Partition], results: dict[PartitionKey, DeleteRecordsPartitionResult]
) -> None:
    """Put the new starts on disk; partitions in a folder where that fails get the error.

    They go offline, unless the folder only lacks room: then the client may retry, and the deletion makes room. A
    partition that is being moved is in two folders: the next start may take either.
    """
    by_folder: dict[str, list[Partition]] = {}
    for partition in moved:
        lies_in = _folder(partition)
        for folder in {lies_in, replicas.logs.moving.get(TopicPartition(*partition.key), lies_in)}:
            by_folder.setdefault(folder, []).append(partition)

    async def write(folder: str, partitions: list[Partition]) -> None:
        workers = replicas.logs.services.workers.lane(f"checkpoint {folder}")
        try:
            await replicas.logs.write_checkpoints(partial(replicas.logs.checkpoint_log_start_offsets, folder), workers)
        except OSError as error:
            for partition in partitions:
                here = _folder(partition) == folder
                failure = partition.log.failure(error) if here else KafkaStorage(str(error))
                results[partition.key] = _delete_records_failed(partition.index, failure)
        for partition in partitions:
            if partition.log.is_offline:  # its folder failed meanwhile, and nothing was written
                results[partition.key] = _delete_records_failed(partition.index, partition.log.storage_error())
            replicas.fetch_purgatory.check_and_complete(partition.key)

    await asyncio.gather(*(write(*one) for one in by_folder.items()))


def _folder(partition: Partition) -> str:
    return partition.log.folder.rpartition("/")[0]


def _delete_records_failed(index: int, error: KafkaError) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(
        partition_index=index, low_watermark=INVALID_LOW_WATERMARK, error_code=error.code
    )


def _response(results: dict[PartitionKey, DeleteRecordsPartitionResult]) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        throttle_time=ZERO,
        topics=tuple(
            DeleteRecordsTopicResult(name=name, partitions=tuple(results[name, index] for index in indexes))
            for name, indexes in by_topic(results).items()
        ),
    )
