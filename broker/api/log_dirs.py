"""The folders of a broker, and replicas that move between them.

DescribeLogDirs 1-5 (KIP-113, KIP-827, KIP-1066; Kafka's `ReplicaManager.describeLogDirs`).

AlterReplicaLogDirs 1-2 (KIP-113; Kafka's `ReplicaManager.alterReplicaLogDirs`): answered at once, done later.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from operator import attrgetter
from typing import TYPE_CHECKING

from kio.schema.alter_replica_log_dirs.v2 import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse
from kio.schema.alter_replica_log_dirs.v2.response import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirTopicResult,
)
from kio.schema.describe_log_dirs.v5 import DescribeLogDirsRequest, DescribeLogDirsResponse
from kio.schema.describe_log_dirs.v5.response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kio.schema.errors import ErrorCode

from broker.request_context import RequestContext
from protocol import uuids
from protocol.durations import ZERO
from protocol.errors import KafkaError
from protocol.topic_partition import PartitionKey, TopicPartition, by_topic
from storage.folders import log_names

if TYPE_CHECKING:
    from broker.replication.partition import Partition


def describe_log_dirs(ctx: RequestContext, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    wanted: set[PartitionKey] | None = None
    if request.topics is not None:
        wanted = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    by_dir: defaultdict[str, dict[str, list[DescribeLogDirsPartition]]] = defaultdict(lambda: defaultdict(list))
    for partition in sorted(ctx.replicas, key=attrgetter("key")):
        if wanted is None or partition.key in wanted:
            for path, replica in _replicas(ctx, partition):
                by_dir[path][partition.key[0]].append(replica)
    return DescribeLogDirsResponse(
        throttle_time=ZERO,
        error_code=ErrorCode.none,
        results=tuple(_result(ctx, path, by_dir[path]) for path in log_dirs(ctx)),
    )


def log_dirs(ctx: RequestContext) -> list[str]:
    """The folders of `log.dirs` as absolute paths, as Kafka reports them."""
    return [os.path.abspath(path) for path in ctx.local.config.log_dirs]


def _replicas(ctx: RequestContext, partition: Partition) -> Iterator[tuple[str, DescribeLogDirsPartition]]:
    """The partition's log, and its copy in another folder if it is being moved; each with its folder."""

    def replica(size: int, offset_lag: int, *, is_future: bool) -> DescribeLogDirsPartition:
        return DescribeLogDirsPartition(
            partition_index=partition.index, partition_size=size, offset_lag=offset_lag, is_future_key=is_future
        )

    log = partition.log
    # A replica's lag is its distance from the high watermark; a leader has none.
    folder = os.path.abspath(os.path.dirname(log.folder))
    yield folder, replica(log.size, 0, is_future=False)
    move = ctx.replicas.moves.future_of(log)
    if move is not None and folder != os.path.abspath(move.target.path):
        yield os.path.abspath(move.target.path), replica(move.size, log.log_end_offset - move.copied_to, is_future=True)


def _result(
    ctx: RequestContext, path: str, by_topic: dict[str, list[DescribeLogDirsPartition]]
) -> DescribeLogDirsResult:
    if path in {os.path.abspath(failed) for failed in ctx.replicas.logs.failed_folders}:
        return DescribeLogDirsResult(error_code=ErrorCode.kafka_storage_error, log_dir=path, topics=())
    try:
        total, usable = ctx.replicas.logs.services.fs.space(path)
    except OSError:
        return DescribeLogDirsResult(error_code=ErrorCode.kafka_storage_error, log_dir=path, topics=())
    return DescribeLogDirsResult(
        error_code=ErrorCode.none,
        log_dir=path,
        topics=tuple(
            DescribeLogDirsTopic(name=topic, partitions=tuple(partitions)) for topic, partitions in by_topic.items()
        ),
        total_bytes=total,
        usable_bytes=usable,
        is_cordoned=path in ctx.local.config.cordoned_log_dirs,
    )


def alter_replica_log_dirs(ctx: RequestContext, request: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
    # If a partition is named twice, the last folder counts.
    return _response({key: _outcome(ctx, key, path) for key, path in _wanted(request).items()})


def _wanted(request: AlterReplicaLogDirsRequest) -> dict[PartitionKey, str]:
    return {
        (topic.name, index): log_dir.path
        for log_dir in request.dirs
        for topic in log_dir.topics
        for index in topic.partitions
    }


def _outcome(ctx: RequestContext, key: PartitionKey, path: str) -> ErrorCode:
    # With a longer name, the copy of the partition could not have a folder.
    if len(log_names.future_name(TopicPartition(*key), uuids.ZERO)) > log_names.LONGEST_NAME:
        return ErrorCode.invalid_topic_exception
    if path not in log_dirs(ctx):
        return ErrorCode.log_dir_not_found
    if path in ctx.local.config.cordoned_log_dirs:
        return ErrorCode.invalid_replica_assignment
    partition = ctx.replicas.get(*key)
    if partition is None:
        return _prefer(ctx, key, path)
    try:
        ctx.replicas.moves.request(partition.log, path)
    except KafkaError as error:
        return error.code
    return ErrorCode.none


def _prefer(ctx: RequestContext, key: PartitionKey, path: str) -> ErrorCode:
    """Note in which folder to make a partition that does not exist here yet (KIP-113)."""
    log_dir = ctx.replicas.logs.log_dir(path)
    if log_dir.failed:
        return ErrorCode.kafka_storage_error
    ctx.replicas.logs.placement.prefer(TopicPartition(*key), log_dir)
    topic = ctx.image.topics.get(key[0])
    is_elsewhere = topic is not None and key[1] in topic.partitions
    return ErrorCode.not_leader_or_follower if is_elsewhere else ErrorCode.unknown_topic_or_partition


def _response(outcomes: dict[PartitionKey, ErrorCode]) -> AlterReplicaLogDirsResponse:
    return AlterReplicaLogDirsResponse(
        throttle_time=ZERO,
        results=tuple(
            AlterReplicaLogDirTopicResult(
                topic_name=topic,
                partitions=tuple(
                    AlterReplicaLogDirPartitionResult(partition_index=index, error_code=outcomes[topic, index])
                    for index in indexes
                ),
            )
            for topic, indexes in by_topic(outcomes).items()
        ),
    )
