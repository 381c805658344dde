"""ElectLeaders 0-2 (KIP-183, KIP-460).

On one node a partition has its preferred leader or, if its log is offline, none: nobody is ever elected.
"""

from __future__ import annotations

from itertools import starmap
from typing import TYPE_CHECKING

from kio.schema.elect_leaders.v2 import ElectLeadersRequest, ElectLeadersResponse
from kio.schema.elect_leaders.v2.response import PartitionResult, ReplicaElectionResult
from kio.schema.errors import ErrorCode

from broker.metadata.topic_planning import require_time_left
from broker.network.context import RequestContext
from protocol.durations import ZERO
from protocol.errors import (
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    InvalidRequest,
    KafkaError,
    PreferredLeaderNotAvailable,
    UnknownTopicOrPartition,
)

if TYPE_CHECKING:
    from broker.node import Node

NONE_TO_ELECT: dict[int, type[KafkaError]] = {0: PreferredLeaderNotAvailable, 1: EligibleLeadersNotAvailable}
"""The answer for a partition without a leader, by type of election (Kafka's `ElectionType`)."""


def handle(ctx: RequestContext, request: ElectLeadersRequest) -> ElectLeadersResponse:
    if request.topic_partitions == ():  # nothing to elect
        return _response([])
    require_time_left(request.timeout)
    if request.election_type not in NONE_TO_ELECT:
        raise InvalidRequest(f"Unknown election type {request.election_type}")
    none_to_elect = NONE_TO_ELECT[request.election_type]
    not_available = none_to_elect(none_to_elect.default_message)
    if request.topic_partitions is None:  # every partition; those that need no election are left out
        offline = [(topic.name, sorted(ctx.node.partitions.offline_of(topic))) for topic in ctx.node.topics.in_order()]
        return _response([_results(name, [(index, not_available) for index in found]) for name, found in offline])
    return _response(
        [
            _results(
                wanted.topic,
                [(index, _outcome(ctx.node, wanted.topic, index, not_available)) for index in wanted.partitions],
            )
            for wanted in request.topic_partitions
        ]
    )


def _results(topic: str, outcomes: list[tuple[int, KafkaError]]) -> ReplicaElectionResult:
    return ReplicaElectionResult(topic=topic, partition_result=tuple(starmap(_result, outcomes)))


def _response(results: list[ReplicaElectionResult]) -> ElectLeadersResponse:
    return ElectLeadersResponse(throttle_time=ZERO, error_code=ErrorCode.none, replica_election_results=tuple(results))


def _outcome(node: Node, name: str, index: int, not_available: KafkaError) -> KafkaError:
    topic = node.topics.get(name)
    if topic is None:
        return UnknownTopicOrPartition(f"No such topic as {name}")
    if not 0 <= index < len(topic.partitions):
        return UnknownTopicOrPartition(f"No such partition as {name}-{index}")
    if index in node.partitions.offline_of(topic):
        return not_available
    return ElectionNotNeeded("Leader election not needed for topic partition.")


def _result(index: int, error: KafkaError) -> PartitionResult:
    return PartitionResult(partition_id=index, error_code=error.code, error_message=error.explicit_message)


def error_response(ctx: RequestContext, request: ElectLeadersRequest, error: KafkaError) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        throttle_time=ZERO,
        error_code=error.code,
        replica_election_results=tuple(
            ReplicaElectionResult(
                topic=wanted.topic, partition_result=tuple(_result(index, error) for index in wanted.partitions)
            )
            for wanted in request.topic_partitions or ()
        ),
    )
