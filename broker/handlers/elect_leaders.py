"""ElectLeaders 0-2 (KIP-183, KIP-460). On one node every partition has its preferred leader: none is elected."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.elect_leaders.v2 import ElectLeadersRequest, ElectLeadersResponse
from kio.schema.elect_leaders.v2.response import PartitionResult, ReplicaElectionResult
from kio.schema.errors import ErrorCode

from broker.metadata.topic_planning import require_time_left
from broker.network.context import RequestContext
from protocol.durations import ZERO
from protocol.errors import ElectionNotNeeded, InvalidRequest, KafkaError, UnknownTopicOrPartition

if TYPE_CHECKING:
    from broker.node import Node

PREFERRED, UNCLEAN = 0, 1


def handle(ctx: RequestContext, request: ElectLeadersRequest) -> ElectLeadersResponse:
    if request.topic_partitions == ():  # nothing that time or an election could be needed for
        return _response([])
    require_time_left(request.timeout)
    if request.election_type not in {PREFERRED, UNCLEAN}:
        raise InvalidRequest(f"Unknown election type {request.election_type}")
    if request.topic_partitions is None:  # every partition; those that need no election are left out
        results = [ReplicaElectionResult(topic=topic.name, partition_result=()) for topic in ctx.node.topics.all()]
        return _response(results)
    results = [
        ReplicaElectionResult(
            topic=wanted.topic,
            partition_result=tuple(
                _result(index, _outcome(ctx.node, wanted.topic, index)) for index in wanted.partitions
            ),
        )
        for wanted in request.topic_partitions
    ]
    return _response(results)


def _response(results: list[ReplicaElectionResult]) -> ElectLeadersResponse:
    return ElectLeadersResponse(throttle_time=ZERO, error_code=ErrorCode.none, replica_election_results=tuple(results))


def _outcome(node: Node, name: str, index: int) -> KafkaError:
    topic = node.topics.get(name)
    if topic is None:
        return UnknownTopicOrPartition(f"No such topic as {name}")
    if not 0 <= index < len(topic.partitions):
        return UnknownTopicOrPartition(f"No such partition as {name}-{index}")
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
