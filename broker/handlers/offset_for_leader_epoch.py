"""OffsetForLeaderEpoch 2-4 (KIP-101, KIP-320; Kafka's `ReplicaManager.lastOffsetForLeaderEpoch`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode
from kio.schema.offset_for_leader_epoch.v4 import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from kio.schema.offset_for_leader_epoch.v4.request import OffsetForLeaderPartition
from kio.schema.offset_for_leader_epoch.v4.response import EpochEndOffset, OffsetForLeaderTopicResult

from broker.request_context import RequestContext
from protocol.durations import ZERO
from protocol.errors import KafkaError

if TYPE_CHECKING:
    from broker.replicas.replica_manager import ReplicaManager


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
        return _failed(wanted, error)
    epoch, end_offset = partition.end_offset_for_epoch(wanted.leader_epoch)
    return EpochEndOffset(
        error_code=ErrorCode.none, partition=wanted.partition, leader_epoch=epoch, end_offset=end_offset
    )


def _failed(wanted: OffsetForLeaderPartition, error: KafkaError) -> EpochEndOffset:
    return EpochEndOffset(error_code=error.code, partition=wanted.partition)
