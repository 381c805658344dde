"""AlterPartitionReassignments 0-1 (KIP-455, KIP-860), as a cluster of one node answers: a partition can only be
assigned to where it already is, and no reassignment is ever in progress.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.alter_partition_reassignments.v1 import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from kio.schema.alter_partition_reassignments.v1.request import ReassignablePartition
from kio.schema.alter_partition_reassignments.v1.response import (
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kio.schema.errors import ErrorCode

from broker.metadata.topic_planning import check_replicas, require_time_left
from broker.network.context import RequestContext
from protocol.durations import ZERO
from protocol.errors import KafkaError, NoReassignmentInProgress, UnknownTopicOrPartition

if TYPE_CHECKING:
    from broker.node import Node


def handle(ctx: RequestContext, request: AlterPartitionReassignmentsRequest) -> AlterPartitionReassignmentsResponse:
    if request.topics:
        require_time_left(request.timeout)
    return AlterPartitionReassignmentsResponse(
        throttle_time=ZERO,
        allow_replication_factor_change=request.allow_replication_factor_change or not request.topics,
        error_code=ErrorCode.none,
        error_message=None if request.topics else "",
        responses=tuple(
            ReassignableTopicResponse(
                name=topic.name,
                partitions=tuple(
                    _result(partition, _refusal(ctx.node, topic.name, partition)) for partition in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


def _refusal(node: Node, name: str, wanted: ReassignablePartition) -> KafkaError | None:
    topic = node.topics.get(name)
    if topic is None:
        return UnknownTopicOrPartition(f"Unable to find a topic named {name}.")
    if not 0 <= wanted.partition_index < len(topic.partitions):
        return UnknownTopicOrPartition(f"Unable to find partition {name}:{wanted.partition_index}.")
    if wanted.replicas is None:
        return NoReassignmentInProgress()
    try:
        check_replicas(wanted.replicas, {node.node_id})
    except KafkaError as error:
        return error
    return None


def _result(wanted: ReassignablePartition, error: KafkaError | None) -> ReassignablePartitionResponse:
    return ReassignablePartitionResponse(
        partition_index=wanted.partition_index,
        error_code=ErrorCode.none if error is None else error.code,
        error_message=None if error is None else error.explicit_message,
    )


def error_response(
    ctx: RequestContext, request: AlterPartitionReassignmentsRequest, error: KafkaError
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        throttle_time=ZERO,
        error_code=error.code,
        error_message=error.explicit_message,
        responses=tuple(
            ReassignableTopicResponse(
                name=topic.name, partitions=tuple(_result(partition, error) for partition in topic.partitions)
            )
            for topic in request.topics
        ),
    )
