"""AlterReplicaLogDirs 1-2 (KIP-113; Kafka's `ReplicaManager.alterReplicaLogDirs`): answered at once, done later."""

from __future__ import annotations

from kio.schema.alter_replica_log_dirs.v2 import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse
from kio.schema.alter_replica_log_dirs.v2.response import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirTopicResult,
)
from kio.schema.errors import ErrorCode

from broker.handlers.describe_log_dirs import log_dirs
from broker.request_context import RequestContext
from protocol import uuids
from protocol.durations import ZERO
from protocol.errors import KafkaError
from protocol.topic_partition import PartitionKey, TopicPartition, by_topic
from storage.folders import log_names


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
