"""DeleteRecords 0-2 (KIP-107; Kafka's `ReplicaManager.deleteRecords`).

The answer waits until the followers that are alive have deleted the records too, for the request's timeout at most.

Deviation: the new log start offsets are on disk before the answer; Kafka writes them within a minute.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from kio.schema.delete_records.v2.request import DeleteRecordsRequest
from kio.schema.delete_records.v2.response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kio.schema.errors import ErrorCode

from broker.replicas import records_delete
from broker.replicas.partition import Role
from broker.replicas.records_delete import DelayedDelete, Deletion
from broker.request_context import RequestContext
from metadata.topic_names import INTERNAL_TOPICS
from protocol.durations import MILLISECOND, ZERO
from protocol.errors import InvalidTopic, KafkaError, KafkaStorage, NotLeaderOrFollower, Timeout
from protocol.topic_partition import PartitionKey, TopicPartition, by_topic

if TYPE_CHECKING:
    from broker.replicas.partition import Partition
    from broker.replicas.replica_manager import ReplicaManager

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
    deletions: list[Deletion] = []
    for (name, index), offset in wanted.items():
        try:
            partition = _partition(replicas, name, index)
            deletions.append(Deletion(partition, records_delete.delete_records(partition, offset)))
        except KafkaError as error:
            results[name, index] = _failed(index, error)
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


async def _wait_for_followers(replicas: ReplicaManager, deletions: list[Deletion], timeout_ms: int) -> None:
    ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    operation = DelayedDelete(deletions, ready)
    keys = [deletion.partition.key for deletion in deletions]
    replicas.delete_purgatory.try_complete_else_watch(operation, keys, max(timeout_ms, 0))
    try:
        await ready
    finally:
        operation.force_complete()


def _after_wait(deletion: Deletion) -> DeleteRecordsPartitionResult:
    partition = deletion.partition
    if deletion.is_done:
        return _deleted(partition)
    return _failed(partition.index, Timeout() if partition.role is Role.LEADER else NotLeaderOrFollower())


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
                results[partition.key] = _failed(partition.index, failure)
        for partition in partitions:
            if partition.log.is_offline:  # its folder failed meanwhile, and nothing was written
                results[partition.key] = _failed(partition.index, partition.log.storage_error())
            replicas.fetch_purgatory.check_and_complete(partition.key)

    await asyncio.gather(*(write(*one) for one in by_folder.items()))


def _folder(partition: Partition) -> str:
    return partition.log.folder.rpartition("/")[0]


def _failed(index: int, error: KafkaError) -> DeleteRecordsPartitionResult:
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
