"""AlterPartitionReassignments and ListPartitionReassignments (KIP-455, KIP-860; Kafka's `ReplicationControlManager`).

A reassignment begins with the new replicas added to the old ones. Once all replicas of the target are in the ISR, the
AlterPartition that brings the last of them removes the old ones (`controller.partition_change`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

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
from kio.schema.list_partition_reassignments.v0 import ListPartitionReassignmentsResponse
from kio.schema.list_partition_reassignments.v0.response import (
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

from controller.broker_changes import MOST_IN_A_STEP
from controller.decision import MOST_RECORDS, ConfigSchema, Decision, require_few_records, require_time_left
from controller.partition_change import Election, PartitionChange
from controller.placement import check_replicas
from controller.replica_rules import ReplicaRules
from metadata.image import MetadataImage
from metadata.topics import REASSIGNING, PartitionRegistration, TopicImage
from protocol.durations import ZERO
from protocol.errors import (
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    KafkaError,
    NoReassignmentInProgress,
    UnknownTopicOrPartition,
)
from protocol.topic_partition import by_topic


class Reassignments:
    """The reassignments of one request, in steps: each that can be is begun or cancelled. Raises Timeout."""

    def __init__(self, request: AlterPartitionReassignmentsRequest, schema: ConfigSchema) -> None:
        if request.topics:
            require_time_left(request.timeout)
        self._request = request
        self._schema = schema
        self._results: list[tuple[str, list[ReassignablePartitionResponse]]] = []
        self._left: deque[_Wanted] = deque()
        for topic in request.topics:
            results: list[ReassignablePartitionResponse] = []
            self._results.append((topic.name, results))
            self._left += (_Wanted(topic.name, wanted, results) for wanted in topic.partitions)
        self._uncounted = deque(self._left if len(self._left) > MOST_RECORDS else ())
        self._changes = 0

    def step(self, image: MetadataImage) -> Decision[bool]:
        """Decide on some of the partitions; the response is whether others are left.

        Raises PolicyViolation for too many changes, before anything is changed: if a request names more partitions than
        may be changed, its changes are counted first, in steps too.
        """
        rules = ReplicaRules(image, self._schema)
        if self._uncounted:
            self._count(rules)
            return Decision([], True)
        records: list[Any] = []
        for wanted in _some_of(self._left):
            record, error = self._decide(rules, wanted)
            records += [] if record is None else [record]
            wanted.results.append(result(wanted.partition, error))
        return Decision(records, bool(self._left))

    def _count(self, rules: ReplicaRules) -> None:
        self._changes += sum(self._decide(rules, wanted)[0] is not None for wanted in _some_of(self._uncounted))
        if not self._uncounted:
            require_few_records(self._changes)

    def _decide(self, rules: ReplicaRules, wanted: _Wanted) -> tuple[Any, KafkaError | None]:
        """The record of the change, if anything changes, and why it cannot be made, if it cannot."""
        try:
            return _change(rules, wanted.topic, wanted.partition, self._request.allow_replication_factor_change), None
        except KafkaError as error:
            return None, error

    @property
    def response(self) -> AlterPartitionReassignmentsResponse:
        """The answer, once nothing is left."""
        return AlterPartitionReassignmentsResponse(
            throttle_time=ZERO,
            allow_replication_factor_change=self._request.allow_replication_factor_change or not self._request.topics,
            error_code=ErrorCode.none,
            error_message=None if self._request.topics else "",
            responses=tuple(
                ReassignableTopicResponse(name=name, partitions=tuple(results)) for name, results in self._results
            ),
        )


class _Wanted(NamedTuple):
    """What is wanted of a partition, and the results of its topic, to which its own is to be added."""

    topic: str
    partition: ReassignablePartition
    results: list[ReassignablePartitionResponse]


def _some_of(wanted: deque[_Wanted]) -> Iterator[_Wanted]:
    """Take away as many as one decision may change."""
    for _ in range(min(len(wanted), MOST_IN_A_STEP)):
        yield wanted.popleft()


def _change(rules: ReplicaRules, name: str, wanted: ReassignablePartition, may_change_factor: bool) -> Any:
    """The record of one partition, None if nothing changes. Raises KafkaError."""
    topic = rules.image.topics.get(name)
    if topic is None:
        raise UnknownTopicOrPartition(f"Unable to find a topic named {name}.")
    partition = topic.partitions.get(wanted.partition_index)
    if partition is None:
        raise UnknownTopicOrPartition(f"Unable to find partition {name}:{wanted.partition_index}.")
    change = PartitionChange(rules, topic, wanted.partition_index)
    if wanted.replicas is None:
        _cancel(rules, topic, change)
        return change.record()
    check_replicas(rules.image.cluster, wanted.replicas)
    if not may_change_factor:
        _require_same_factor(partition, wanted.replicas)
    _begin(change, wanted.replicas)
    return change.record()


def _begin(change: PartitionChange, target: Sequence[int]) -> None:
    """Let the partition have the replicas of the target, and go on with the old ones meanwhile."""
    current = change.partition.replicas
    removing = tuple(sorted(set(current) - set(target)))
    adding = tuple(sorted(set(target) - set(current)))
    change.replicas = (*target, *removing)
    change.removing = removing or change.removing
    change.adding = adding or change.adding


def _cancel(rules: ReplicaRules, topic: TopicImage, change: PartitionChange) -> None:
    """Return to the replicas from before it began. Raises NoReassignmentInProgress, InvalidReplicaAssignment."""
    partition = change.partition
    if not is_in_progress(partition):
        raise NoReassignmentInProgress
    replicas = tuple(node_id for node_id in partition.replicas if node_id not in partition.adding_replicas)
    isr = tuple(node_id for node_id in partition.isr if node_id not in partition.adding_replicas)
    is_unclean_allowed = rules.may_elect_uncleanly(topic.name)
    if not isr and not is_unclean_allowed:
        raise InvalidReplicaAssignment(
            f"The reassignment of {topic.name} cannot be cancelled: only new replicas are in sync, so records would be "
            "lost. Wait for its end, or set unclean.leader.election.enable for the topic."
        )
    change.isr, change.replicas = isr or replicas[:1], replicas
    change.removing = change.adding = ()
    if is_unclean_allowed:
        change.election = Election.UNCLEAN


def _require_same_factor(partition: PartitionRegistration, target: Sequence[int]) -> None:
    """Raises InvalidReplicationFactor; while a reassignment is in progress, its target counts (KIP-860)."""
    current = len(set(partition.replicas) - set(partition.removing_replicas))
    if current != len(target):
        raise InvalidReplicationFactor(
            f"The replication factor would change from {current} to {len(target)}, which the request does not allow."
        )


def is_in_progress(partition: PartitionRegistration) -> bool:
    return bool(partition.adding_replicas or partition.removing_replicas)


def result(wanted: ReassignablePartition, error: KafkaError | None) -> ReassignablePartitionResponse:
    """The result of one partition."""
    return ReassignablePartitionResponse(
        partition_index=wanted.partition_index,
        error_code=ErrorCode.none if error is None else error.code,
        error_message=None if error is None else error.explicit_message,
    )


Asked = Iterable[tuple[str, Iterable[int]]]
"""Names of topics and indexes of partitions."""


def listed(image: MetadataImage, asked: Asked | None) -> ListPartitionReassignmentsResponse:
    """The reassignments in progress, of those partitions or of all; unknown ones are left out, as in Kafka."""
    if asked is None:
        asked = sorted(by_topic((topic.name, index) for topic, index in image.topics.where(REASSIGNING)).items())
    topics = []
    for name, indexes in asked:
        partitions = tuple(_ongoing(image.topics.get(name), indexes))
        if partitions:
            topics.append(OngoingTopicReassignment(name=name, partitions=partitions))
    return ListPartitionReassignmentsResponse(
        throttle_time=ZERO, error_code=ErrorCode.none, error_message=None, topics=tuple(topics)
    )


def _ongoing(topic: TopicImage | None, indexes: Iterable[int]) -> Iterator[OngoingPartitionReassignment]:
    for index in indexes:
        partition = None if topic is None else topic.partitions.get(index)
        if partition is not None and is_in_progress(partition):
            yield OngoingPartitionReassignment(
                partition_index=index,
                replicas=partition.replicas,
                adding_replicas=partition.adding_replicas,
                removing_replicas=partition.removing_replicas,
            )
