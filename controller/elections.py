"""ElectLeaders (KIP-183, KIP-460; Kafka's `ReplicationControlManager.electLeaders`)."""

from __future__ import annotations

from itertools import starmap
from typing import Any

from kio.schema.elect_leaders.v2 import ElectLeadersRequest, ElectLeadersResponse
from kio.schema.elect_leaders.v2.response import PartitionResult, ReplicaElectionResult
from kio.schema.errors import ErrorCode

from controller.decision import Decision, Surroundings, require_few_records, require_time_left
from controller.partition_change import Election, PartitionChange
from controller.replica_rules import ReplicaRules
from metadata.image import MetadataImage
from metadata.topics import TopicImage
from protocol.durations import ZERO
from protocol.errors import (
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    InvalidRequest,
    KafkaError,
    PreferredLeaderNotAvailable,
    UnknownTopicOrPartition,
)

PREFERRED, UNCLEAN = 0, 1
"""Kafka's `ElectionType`."""
ELECTIONS = {PREFERRED: Election.PREFERRED, UNCLEAN: Election.UNCLEAN}
NONE_TO_ELECT: dict[int, type[KafkaError]] = {
    PREFERRED: PreferredLeaderNotAvailable,
    UNCLEAN: EligibleLeadersNotAvailable,
}
"""The answer for a partition whose leader cannot be changed, by type of election."""

Outcome = tuple[int, KafkaError | None]


def decide(image: MetadataImage, request: ElectLeadersRequest, around: Surroundings) -> Decision[ElectLeadersResponse]:
    """Elect the preferred leader, or any that is up.

    Raises Timeout, InvalidRequest for an unknown type of election, and PolicyViolation for too many changes.
    """
    if request.topic_partitions == ():  # nothing to elect
        return Decision([], _response([]))
    require_time_left(request.timeout)
    if request.election_type not in ELECTIONS:
        raise InvalidRequest(f"Unknown election type {request.election_type}")
    elections = _Elections(image, request.election_type, around)
    if request.topic_partitions is None:  # every partition; those that need no election are left out
        results = [_results(topic.name, elections.of_all(topic)) for topic in image.topics.sorted()]
    else:
        results = [
            _results(wanted.topic, [(index, elections.elect(wanted.topic, index)) for index in wanted.partitions])
            for wanted in request.topic_partitions
        ]
    require_few_records(len(elections.records))
    return Decision(elections.records, _response(results))


class _Elections:
    """The elections of one request; `records` are those that were made."""

    def __init__(self, image: MetadataImage, kind: int, around: Surroundings) -> None:
        self.records: list[Any] = []
        self._image = image
        self._kind = kind
        self._around = around
        self._rules = ReplicaRules(image, around.schema)

    def of_all(self, topic: TopicImage) -> list[Outcome]:
        outcomes = [(index, self.elect(topic.name, index)) for index in range(topic.partition_count)]
        return [(index, error) for index, error in outcomes if not isinstance(error, ElectionNotNeeded)]

    def elect(self, name: str, index: int) -> KafkaError | None:
        """Elect a partition's leader; the error if none is elected."""
        topic = self._image.topics.get(name)
        if topic is None:
            return UnknownTopicOrPartition(f"No such topic as {name}")
        partition = topic.partitions.get(index)
        if partition is None:
            return UnknownTopicOrPartition(f"No such partition as {name}-{index}")
        error = NONE_TO_ELECT[self._kind]
        if partition.replicas == (self._around.node_id,) and self._around.is_offline(name, index):
            return error(error.default_message)
        is_fine = partition.leader == partition.replicas[0] if self._kind == PREFERRED else partition.has_leader
        if is_fine:
            return ElectionNotNeeded("Leader election not needed for topic partition.")
        change = PartitionChange(self._rules, topic, index)
        change.election = ELECTIONS[self._kind]
        record = change.record()
        if record is None:
            return error(error.default_message)
        self.records.append(record)
        return None


def _results(topic: str, outcomes: list[Outcome]) -> ReplicaElectionResult:
    return ReplicaElectionResult(topic=topic, partition_result=tuple(starmap(result, outcomes)))


def _response(results: list[ReplicaElectionResult]) -> ElectLeadersResponse:
    return ElectLeadersResponse(throttle_time=ZERO, error_code=ErrorCode.none, replica_election_results=tuple(results))


def result(index: int, error: KafkaError | None) -> PartitionResult:
    """The result of one partition."""
    if error is None:
        return PartitionResult(partition_id=index, error_code=ErrorCode.none, error_message=None)
    return PartitionResult(partition_id=index, error_code=error.code, error_message=error.explicit_message)
