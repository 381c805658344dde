"""AlterPartitionReassignments (KIP-455, KIP-860; Kafka's `ReplicationControlManager`).

Our controller serves clusters of one broker: a partition can only be assigned to where it already is, and no
reassignment is ever in progress.
"""

from __future__ import annotations

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

from controller.decision import Decision, require_time_left
from controller.placement import check_replicas
from metadata.image import MetadataImage
from protocol.durations import ZERO
from protocol.errors import (
    InvalidReplicaAssignment,
    KafkaError,
    NoReassignmentInProgress,
    UnknownTopicOrPartition,
)


def decide(
    image: MetadataImage, request: AlterPartitionReassignmentsRequest
) -> Decision[AlterPartitionReassignmentsResponse]:
    """Raises Timeout."""
    if request.topics:
        require_time_left(request.timeout)
    response = AlterPartitionReassignmentsResponse(
        throttle_time=ZERO,
        allow_replication_factor_change=request.allow_replication_factor_change or not request.topics,
        error_code=ErrorCode.none,
        error_message=None if request.topics else "",
        responses=tuple(
            ReassignableTopicResponse(
                name=topic.name,
                partitions=tuple(
                    result(partition, _refusal(image, topic.name, partition)) for partition in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )
    return Decision([], response)


def _refusal(image: MetadataImage, name: str, wanted: ReassignablePartition) -> KafkaError | None:
    topic = image.topics.get(name)
    if topic is None:
        return UnknownTopicOrPartition(f"Unable to find a topic named {name}.")
    partition = topic.partitions.get(wanted.partition_index)
    if partition is None:
        return UnknownTopicOrPartition(f"Unable to find partition {name}:{wanted.partition_index}.")
    if wanted.replicas is None:
        return NoReassignmentInProgress()
    try:
        check_replicas(image.cluster, wanted.replicas)
    except KafkaError as error:
        return error
    if set(wanted.replicas) != set(partition.replicas):
        return InvalidReplicaAssignment("This controller serves one broker, so a partition cannot move to another.")
    return None


def result(wanted: ReassignablePartition, error: KafkaError | None) -> ReassignablePartitionResponse:
    """The result of one partition."""
    return ReassignablePartitionResponse(
        partition_index=wanted.partition_index,
        error_code=ErrorCode.none if error is None else error.code,
        error_message=None if error is None else error.explicit_message,
    )
