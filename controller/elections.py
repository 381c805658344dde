"""ElectLeaders (KIP-183, KIP-460; Kafka's `ReplicationControlManager.electLeaders`)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import starmap
from typing import Any

from kio.schema.elect_leaders.v2 import ElectLeadersRequest, ElectLeadersResponse
from kio.schema.elect_leaders.v2.response import PartitionResult, ReplicaElectionResult
from kio.schema.errors import ErrorCode

from controller.broker_changes import MOST_IN_A_STEP
from controller.decision import Decision, Surroundings, require_few_records, require_time_left
from controller.partition_change import Election, PartitionChange
from controller.replica_rules import ReplicaRules
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

PREFERRED, UNCLEAN = 0, 1
"""Kafka's `ElectionType`."""
ELECTIONS = {PREFERRED: Election.PREFERRED, UNCLEAN: Election.UNCLEAN}
NONE_TO_ELECT: dict[int, type[KafkaError]] = {
    PREFERRED: PreferredLeaderNotAvailable,
    UNCLEAN: EligibleLeadersNotAvailable,
}
"""The answer for a partition whose leader cannot be changed, by type of election."""

Outcome = tuple[int, KafkaError | None]


class Elections:
    """The elections of one request, in steps: the preferred leader leads, or any replica that is up.

    Raises Timeout, and InvalidRequest for an unknown type of election.
    """

    def __init__(self, request: ElectLeadersRequest, around: Surroundings) -> None:
        self._request = request
        self._around = around
        self._outcomes: list[tuple[str, list[Outcome]]] = []
        self._left: deque[_Wanted] | None = None
        if request.topic_partitions == ():  # nothing to elect
            return
        require_time_left(request.timeout)
        if request.election_type not in ELECTIONS:
            raise InvalidRequest(f"Unknown election type {request.election_type}")

    def step(self, image: MetadataImage) -> Decision[bool]:
        """Decide on some of the partitions; the response is whether others are left.

        Raises PolicyViolation for too many changes, before anything is changed.
        """
        if self._left is None:
            self._left = deque(self._wanted(image))
            require_few_records(sum(self._refusal(image, wanted.topic, wanted.index) is None for wanted in self._left))
        rules = ReplicaRules(image, self._around.schema)
        records: list[Any] = []
        while self._left and len(records) < MOST_IN_A_STEP:
            wanted = self._left.popleft()
            error = self._refusal(image, wanted.topic, wanted.index)
            if error is None:
                change = PartitionChange(rules, image.topics.by_name[wanted.topic], wanted.index)
                change.election = ELECTIONS[self._request.election_type]
                record = change.record()
                if record is None:
                    error = self._none_to_elect()
                else:
                    records.append(record)
            wanted.outcomes.append((wanted.index, error))
        return Decision(records, bool(self._left))

    @property
    def response(self) -> ElectLeadersResponse:
        """The answer, once nothing is left."""
        return ElectLeadersResponse(
            throttle_time=ZERO,
            error_code=ErrorCode.none,
            replica_election_results=tuple(
                ReplicaElectionResult(topic=topic, partition_result=tuple(starmap(result, outcomes)))
                for topic, outcomes in self._outcomes
            ),
        )

    def _wanted(self, image: MetadataImage) -> Iterator[_Wanted]:
        """The partitions that the request names; of all partitions, if it names none, those that need an election."""
        named = self._request.topic_partitions
        topics: Iterable[tuple[str, Iterable[int]]]
        if named is None:
            topics = ((topic.name, self._in_need(image, topic)) for topic in image.topics.sorted())
        else:
            topics = ((each.topic, each.partitions) for each in named)
        for topic, indexes in topics:
            outcomes: list[Outcome] = []
            self._outcomes.append((topic, outcomes))
            for index in indexes:
                yield _Wanted(topic, index, outcomes)

    def _in_need(self, image: MetadataImage, topic: TopicImage) -> Iterator[int]:
        for index, partition in topic.in_order():
            if not self._is_fine(partition) or self._is_offline_here(partition, topic.name, index):
                yield index

    def _refusal(self, image: MetadataImage, name: str, index: int) -> KafkaError | None:
        """Why there is nothing to elect in a partition, if there is not."""
        topic = image.topics.get(name)
        if topic is None:
            return UnknownTopicOrPartition(f"No such topic as {name}")
        partition = topic.partitions.get(index)
        if partition is None:
            return UnknownTopicOrPartition(f"No such partition as {name}-{index}")
        if self._is_offline_here(partition, name, index):
            return self._none_to_elect()
        if self._is_fine(partition):
            return ElectionNotNeeded("Leader election not needed for topic partition.")
        return None

    def _is_offline_here(self, partition: PartitionRegistration, name: str, index: int) -> bool:
        return partition.replicas == (self._around.node_id,) and self._around.is_offline(name, index)

    def _is_fine(self, partition: PartitionRegistration) -> bool:
        is_preferred = self._request.election_type == PREFERRED
        return partition.leader == partition.replicas[0] if is_preferred else partition.has_leader

    def _none_to_elect(self) -> KafkaError:
        error = NONE_TO_ELECT[self._request.election_type]
        return error(error.default_message)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A partition, and the outcomes of its topic, to which its own is to be added."""

    topic: str
    index: int
    outcomes: list[Outcome]


def result(index: int, error: KafkaError | None) -> PartitionResult:
    """The result of one partition."""
    if error is None:
        return PartitionResult(partition_id=index, error_code=ErrorCode.none, error_message=None)
    return PartitionResult(partition_id=index, error_code=error.code, error_message=error.explicit_message)
