"""ElectLeaders (KIP-183, KIP-460), and who leads when brokers come and go (Kafka's `ReplicationControlManager`)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import starmap
from typing import Any
from uuid import UUID

from kio.schema.elect_leaders.v2 import ElectLeadersRequest, ElectLeadersResponse
from kio.schema.elect_leaders.v2.response import PartitionResult, ReplicaElectionResult
from kio.schema.errors import ErrorCode

from controller.decision import Decision, Surroundings, require_time_left
from metadata.image import MetadataImage
from metadata.topics import PartitionRegistration, TopicImage
from protocol.durations import ZERO
from protocol.errors import (
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    InvalidRequest,
    KafkaError,
    PreferredLeaderNotAvailable,
    UnknownTopicOrPartition,
)
from protocol.metadata.topics import NO_LEADER, PartitionChangeRecord

NONE_TO_ELECT: dict[int, type[KafkaError]] = {0: PreferredLeaderNotAvailable, 1: EligibleLeadersNotAvailable}
"""The answer for a partition without a leader, by type of election (Kafka's `ElectionType`)."""


def decide(image: MetadataImage, request: ElectLeadersRequest, around: Surroundings) -> Decision[ElectLeadersResponse]:
    """With one broker a partition has its preferred leader or, if its log is offline, none: nobody is elected.

    Raises Timeout, and InvalidRequest for an unknown type of election.
    """
    if request.topic_partitions == ():  # nothing to elect
        return Decision([], _response([]))
    require_time_left(request.timeout)
    if request.election_type not in NONE_TO_ELECT:
        raise InvalidRequest(f"Unknown election type {request.election_type}")
    error = NONE_TO_ELECT[request.election_type]
    not_available = error(error.default_message)
    if request.topic_partitions is None:  # every partition; those that need no election are left out
        return Decision([], _response([_all(topic, around, not_available) for topic in image.topics.sorted()]))
    results = [
        _results(
            wanted.topic,
            [(index, _outcome(image, around, wanted.topic, index, not_available)) for index in wanted.partitions],
        )
        for wanted in request.topic_partitions
    ]
    return Decision([], _response(results))


def _all(topic: TopicImage, around: Surroundings, not_available: KafkaError) -> ReplicaElectionResult:
    offline = [index for index in range(topic.partition_count) if around.is_offline(topic.name, index)]
    return _results(topic.name, [(index, not_available) for index in offline])


def _outcome(
    image: MetadataImage, around: Surroundings, name: str, index: int, not_available: KafkaError
) -> KafkaError:
    topic = image.topics.get(name)
    if topic is None:
        return UnknownTopicOrPartition(f"No such topic as {name}")
    if index not in topic.partitions:
        return UnknownTopicOrPartition(f"No such partition as {name}-{index}")
    if around.is_offline(name, index):
        return not_available
    return ElectionNotNeeded("Leader election not needed for topic partition.")


def _results(topic: str, outcomes: list[tuple[int, KafkaError]]) -> ReplicaElectionResult:
    return ReplicaElectionResult(topic=topic, partition_result=tuple(starmap(result, outcomes)))


def _response(results: list[ReplicaElectionResult]) -> ElectLeadersResponse:
    return ElectLeadersResponse(throttle_time=ZERO, error_code=ErrorCode.none, replica_election_results=tuple(results))


def result(index: int, error: KafkaError) -> PartitionResult:
    """The result of one partition."""
    return PartitionResult(partition_id=index, error_code=error.code, error_message=error.explicit_message)


def resign(image: MetadataImage, broker_id: int) -> Iterator[Any]:
    """The records by which a broker leads nothing and is in no ISR, as one that is fenced or shuts down.

    The last replica of an ISR becomes an eligible leader replica (KIP-966), and the last known leader.
    """
    for topic, index, partition in _partitions(image):
        if broker_id not in partition.isr and partition.leader != broker_id:
            continue
        isr = tuple(node_id for node_id in partition.isr if node_id != broker_id)
        leader = next((node_id for node_id in partition.replicas if node_id in isr), NO_LEADER)
        yield PartitionChangeRecord(
            topic_id=topic.id,
            partition_id=index,
            isr=isr,
            leader=leader,
            eligible_leader_replicas=None if isr else partition.isr,
            last_known_elr=None if isr else (partition.leader,) if partition.has_leader else None,
        )


def elect(image: MetadataImage, broker_id: int, directory: UUID | None) -> Iterator[Any]:
    """The records by which a broker that is up again leads the partitions that have no leader.

    It may, if it was the last in the ISR, which an eligible or the last known leader was. A replica that lay in another
    `directory` of the broker is noted to lie in this one; None for a broker with several.
    """
    for topic, index, partition in _partitions(image):
        if partition.has_leader or broker_id not in partition.replicas:
            continue
        if broker_id not in (*partition.isr, *partition.elr, *partition.last_known_elr):
            continue
        yield PartitionChangeRecord(
            topic_id=topic.id,
            partition_id=index,
            isr=(broker_id,),
            leader=broker_id,
            directories=_moved(partition, broker_id, directory),
            eligible_leader_replicas=() if partition.elr else None,
            last_known_elr=() if partition.last_known_elr else None,
        )


def _moved(partition: PartitionRegistration, broker_id: int, directory: UUID | None) -> tuple[UUID | None, ...] | None:
    if directory is None:
        return None
    directories = tuple(
        directory if node_id == broker_id else known
        for node_id, known in zip(partition.replicas, partition.directories, strict=False)
    )
    return None if directories == partition.directories else directories


def _partitions(image: MetadataImage) -> Iterator[tuple[TopicImage, int, PartitionRegistration]]:
    for topic in image.topics.sorted():
        for index, partition in topic.in_order():
            yield topic, index, partition
