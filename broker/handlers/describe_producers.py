"""DescribeProducers 0 (KIP-664; Kafka's `KafkaApis.handleDescribeProducersRequest`): who writes to a partition."""

from __future__ import annotations

from kio.schema.describe_producers.v0 import DescribeProducersRequest, DescribeProducersResponse
from kio.schema.describe_producers.v0.response import PartitionResponse, ProducerState, TopicResponse
from kio.schema.errors import ErrorCode

from broker.replicas.partition import Partition
from broker.request_context import RequestContext
from metadata import topic_names
from protocol.durations import ZERO
from protocol.errors import InvalidTopic, KafkaError, KafkaStorage, UnknownTopicOrPartition


def describe_producers(ctx: RequestContext, request: DescribeProducersRequest) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        throttle_time=ZERO,
        topics=tuple(
            TopicResponse(
                name=topic.name,
                partitions=tuple(_partition(ctx, topic.name, index) for index in topic.partition_indexes),
            )
            for topic in request.topics
        ),
    )


def _partition(ctx: RequestContext, topic: str, index: int) -> PartitionResponse:
    reason = topic_names.invalid_reason(topic)
    if reason is not None:
        return _failed(index, InvalidTopic(reason), reason)
    if ctx.image.topics.get(topic) is None:
        return _failed(index, UnknownTopicOrPartition(), UnknownTopicOrPartition.default_message)
    try:
        partition = ctx.replicas.find(topic, index)
    except KafkaError as error:
        return _failed(index, error, None)
    if partition.log.is_offline:
        return _failed(index, KafkaStorage(), None)
    return PartitionResponse(
        partition_index=index,
        error_code=ErrorCode.none,
        error_message=None,
        active_producers=_producers(partition),
    )


def _producers(partition: Partition) -> tuple[ProducerState, ...]:
    return tuple(
        ProducerState(
            producer_id=entry.producer_id,
            producer_epoch=entry.producer_epoch,
            last_sequence=entry.last_sequence,
            last_timestamp=entry.last_timestamp,
            coordinator_epoch=entry.coordinator_epoch,
            current_txn_start_offset=entry.txn_first_offset,
        )
        for _, entry in sorted(partition.log.producers.producers.items())
    )


def _failed(index: int, error: KafkaError, message: str | None) -> PartitionResponse:
    """The answer for an error. Kafka sends a message for a topic's error, none for that of a partition it knows."""
    return PartitionResponse(partition_index=index, error_code=error.code, error_message=message, active_producers=())
