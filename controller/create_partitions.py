"""CreatePartitions (KIP-195; Kafka's `ReplicationControlManager.createPartitions`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from kio.schema.create_partitions.v3 import CreatePartitionsRequest, CreatePartitionsResponse
from kio.schema.create_partitions.v3.request import CreatePartitionsTopic
from kio.schema.create_partitions.v3.response import CreatePartitionsTopicResult
from kio.schema.errors import ErrorCode

from controller.create_topics import MOST_PARTITIONS
from controller.decision import Decision, MutationQuota, require_time_left
from controller.placement import check_replicas, new_partition, place
from metadata import topic_names
from metadata.image import MetadataImage
from metadata.snapshot import partition_record
from metadata.topics import PartitionRegistration, TopicImage
from protocol.errors import (
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidRequest,
    KafkaError,
    PolicyViolation,
    UnknownTopicOrPartition,
)

ONCE = 1


def decide(
    image: MetadataImage, request: CreatePartitionsRequest, quota: MutationQuota
) -> Decision[CreatePartitionsResponse]:
    """The topic whose partitions exceed the most of a request, and all after it, get UNKNOWN_SERVER_ERROR, as in Kafka.

    Raises Timeout.
    """
    named = Counter(topic.name for topic in request.topics)
    if ONCE in named.values():
        require_time_left(request.timeout)
    repeated = topic_names.repeated(topic.name for topic in request.topics)
    results = [failed(name, InvalidRequest("Duplicate topic name.")) for name in repeated]
    records: list[Any] = []
    room = MOST_PARTITIONS
    for wanted in request.topics:
        if named[wanted.name] != ONCE:
            continue
        try:
            topic, added = _plan(image, wanted, room, quota)
        except KafkaError as error:
            results.append(failed(wanted.name, error))
            room = 0 if isinstance(error, PolicyViolation) else room
        else:
            records += [partition_record(topic, topic.partition_count + n, new) for n, new in enumerate(added)]
            room -= len(added)
            results.append(CreatePartitionsTopicResult(name=wanted.name, error_code=ErrorCode.none, error_message=None))
    response = CreatePartitionsResponse(throttle_time=quota.throttle_time, results=tuple(results))
    return Decision([] if request.validate_only else records, response)


def _plan(
    image: MetadataImage, wanted: CreatePartitionsTopic, room: int, quota: MutationQuota
) -> tuple[TopicImage, list[PartitionRegistration]]:
    """Raises KafkaError for the first fault."""
    topic = image.topics.get(wanted.name)
    if topic is None:
        raise UnknownTopicOrPartition
    assignments = None if wanted.assignments is None else [each.broker_ids for each in wanted.assignments]
    additional = _additional(topic, wanted.count, assignments)
    if additional > room:
        raise PolicyViolation(f"One request may add {MOST_PARTITIONS} partitions at most.")
    quota.charge(wanted.name, additional)  # even if the replicas turn out to be impossible
    if assignments is None:
        seed = topic.id.int + topic.partition_count
        return topic, place(image.cluster, additional, topic.replication_factor, seed)
    return topic, [_assigned(image, topic, replicas) for replicas in assignments]


def _additional(topic: TopicImage, count: int, assignments: Sequence[Any] | None) -> int:
    """The number of partitions to add to reach `count`."""
    current = topic.partition_count
    if count == current:
        raise InvalidPartitions(f"Topic already has {current} partition(s).")
    if count < current:
        raise InvalidPartitions(
            f"The topic {topic.name} currently has {current} partition(s); {count} would not be an increase."
        )
    additional = count - current
    if assignments is not None and len(assignments) != additional:
        raise InvalidReplicaAssignment(
            f"{additional} partition(s) would be added, but the assignment has {len(assignments)}."
        )
    return additional


def _assigned(image: MetadataImage, topic: TopicImage, replicas: Sequence[int]) -> PartitionRegistration:
    check_replicas(image.cluster, replicas)
    if len(replicas) != topic.replication_factor:
        raise InvalidReplicaAssignment(
            f"The topic's partitions have {topic.replication_factor} replica(s), this assignment has {len(replicas)}."
        )
    return new_partition(image.cluster, replicas)


def failed(name: str, error: KafkaError) -> CreatePartitionsTopicResult:
    """The result of a topic that gets no partitions."""
    return CreatePartitionsTopicResult(name=name, error_code=error.code, error_message=error.explicit_message)
