"""CreatePartitions 0-3 (KIP-195; Kafka's `ReplicationControlManager.createPartitions`).

As in Kafka, the topic whose partitions exceed 10,000 in a request fails with UNKNOWN_SERVER_ERROR, as do all after it;
if they are so many that its controller has no memory for them, so do all topics of the request.
Deviation: Kafka still creates as many of them as fit.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kio.schema.create_partitions.v3 import CreatePartitionsRequest, CreatePartitionsResponse
from kio.schema.create_partitions.v3.request import CreatePartitionsTopic
from kio.schema.create_partitions.v3.response import CreatePartitionsTopicResult
from kio.schema.errors import ErrorCode

from broker.metadata.store import retrying
from broker.metadata.topic_planning import (
    MAX_PARTITIONS_PER_REQUEST,
    OutOfMemoryError,
    growth,
    plan_partitions,
    require_memory,
    require_time_left,
)
from broker.metadata.topics import PartitionAssignment
from broker.network.context import RequestContext
from metadata import topic_names
from protocol.durations import ZERO
from protocol.errors import InvalidRequest, KafkaError, UnknownServerError, UnknownTopicOrPartition
from protocol.java_collections import in_java_order

if TYPE_CHECKING:
    from broker.node import Node
    from broker.quotas.mutations import MutationQuota


FIRST_VERSION_THAT_KNOWS_QUOTAS = 3
ONCE = 1


async def handle(ctx: RequestContext, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    quota = ctx.node.throttling.mutations(ctx, strict=ctx.version >= FIRST_VERSION_THAT_KNOWS_QUOTAS)
    return await retrying(lambda: _create(ctx.node, request, quota))


async def _create(node: Node, request: CreatePartitionsRequest, quota: MutationQuota) -> CreatePartitionsResponse:
    named = Counter(topic.name for topic in request.topics)
    if ONCE in named.values():
        require_time_left(request.timeout)
    repeated = topic_names.repeated(topic.name for topic in request.topics)
    results = [_failed(name, InvalidRequest("Duplicate topic name.")) for name in repeated]
    added: dict[str, tuple[PartitionAssignment, ...]] = {}
    by_name = {topic.name: topic for topic in request.topics}
    room = MAX_PARTITIONS_PER_REQUEST
    for wanted in [by_name[name] for name in in_java_order([*named]) if named[name] == ONCE]:  # in Kafka's order
        try:
            planned = _plan(node, wanted, room, quota)
        except OutOfMemoryError:
            raise
        except KafkaError as error:
            results.append(_failed(wanted.name, error))
            room = 0 if isinstance(error, UnknownServerError) else room
        else:
            added[wanted.name] = planned
            room -= len(planned)
            results.append(CreatePartitionsTopicResult(name=wanted.name, error_code=ErrorCode.none, error_message=None))
    if not request.validate_only:
        await node.topics.create_partitions(added)
    return CreatePartitionsResponse(throttle_time=quota.throttle_time, results=tuple(results))


def _plan(
    node: Node, wanted: CreatePartitionsTopic, room: int, quota: MutationQuota
) -> tuple[PartitionAssignment, ...]:
    topic = node.topics.get(wanted.name)
    if topic is None:
        raise UnknownTopicOrPartition
    assignments = None if wanted.assignments is None else [a.broker_ids for a in wanted.assignments]
    additional = growth(topic, wanted.count, assignments)
    require_memory(additional)
    if additional > room:
        raise UnknownServerError
    quota.charge(wanted.name, additional)  # even if the replicas turn out to be impossible
    return plan_partitions(node.node_id, additional, assignments)


def _failed(name: str, error: KafkaError) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name=name, error_code=error.code, error_message=error.explicit_message)


def error_response(
    ctx: RequestContext, request: CreatePartitionsRequest, error: KafkaError
) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(
        throttle_time=ZERO, results=tuple(_failed(topic.name, error) for topic in request.topics)
    )
