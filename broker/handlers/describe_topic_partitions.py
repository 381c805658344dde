"""DescribeTopicPartitions 0 (KIP-966; Kafka's `DescribeTopicPartitionsRequestHandler`).

Topics are answered in order of their names, up to a limit of partitions; the cursor is where the next page starts.
Deviation: a topic with an empty name gets INVALID_TOPIC_EXCEPTION; Kafka answers UNKNOWN_SERVER_ERROR.
"""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING

from kio.schema.describe_topic_partitions.v0 import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse
from kio.schema.describe_topic_partitions.v0.response import (
    Cursor,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from kio.schema.errors import ErrorCode

from broker.cluster.endpoints import alive_ids
from broker.handlers.metadata import NO_LEADER
from broker.request_context import RequestContext
from metadata import topic_names
from metadata.acls import AclOperation, ResourceType
from protocol.durations import ZERO
from protocol.errors import InvalidRequest, UnknownServerError

if TYPE_CHECKING:
    from metadata.topics import PartitionRegistration, TopicImage


def describe_topic_partitions(
    ctx: RequestContext, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    most = ctx.local.config.integer("max.request.partition.size.limit")
    left = max(1, min(request.response_partition_limit, most))
    cursor = request.cursor
    names, hidden = _names(ctx, request)
    alive = alive_ids(ctx.image, ctx.connection.listener_name)
    results: list[DescribeTopicPartitionsResponseTopic] = []
    for name in names:
        if not name and cursor is None:
            raise UnknownServerError  # as in Kafka, unless a cursor is given
        start = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        if left <= 0:
            return _response(results + hidden, Cursor(topic_name=name, partition_index=start))
        topic = ctx.image.topics.get(name)
        if topic is None:
            results.append(_missing(ctx, name))
            continue
        end = min(start + left, topic.partition_count)
        results.append(_found(ctx, topic, start, end, ctx.replicas.offline_of(topic), alive))
        left -= max(end - start, 0)
        if end < topic.partition_count:
            return _response(results + hidden, Cursor(topic_name=name, partition_index=end))
    return _response(results + hidden, None)


def _names(
    ctx: RequestContext, request: DescribeTopicPartitionsRequest
) -> tuple[list[str], list[DescribeTopicPartitionsResponseTopic]]:
    """The requested topics, all for an empty list, from the cursor on; and the answers for those that are forbidden.

    If all are asked for, forbidden ones are left out.
    """
    cursor = request.cursor
    asked = {topic.name for topic in request.topics}
    names = asked or {topic.name for topic in ctx.image.topics}
    if cursor is not None:
        if cursor.partition_index < 0 or (asked and cursor.topic_name not in asked):
            raise InvalidRequest
        names = {name for name in names if name >= cursor.topic_name}
    allowed = {name for name in names if ctx.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, name)}
    hidden = sorted(names - allowed) if asked else ()
    return sorted(allowed), [_failed(name, ErrorCode.topic_authorization_failed) for name in hidden]


def _response(
    results: list[DescribeTopicPartitionsResponseTopic], cursor: Cursor | None
) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(throttle_time=ZERO, topics=tuple(results), next_cursor=cursor)


def _failed(name: str, code: ErrorCode) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(error_code=code, name=name, topic_id=None, partitions=())


def _missing(ctx: RequestContext, name: str) -> DescribeTopicPartitionsResponseTopic:
    invalid = topic_names.invalid_reason(name) is not None
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.invalid_topic_exception if invalid else ErrorCode.unknown_topic_or_partition,
        name=name,
        topic_id=None,
        is_internal=topic_names.is_internal(name),
        partitions=(),
        topic_authorized_operations=ctx.operations(ResourceType.TOPIC, name),
    )


def _found(
    ctx: RequestContext, topic: TopicImage, start: int, end: int, offline: Set[int], alive: Set[int]
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.none,
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=tuple(
            _partition(index, topic.partitions[index], alive, is_offline=index in offline)
            for index in range(start, end)
        ),
        topic_authorized_operations=ctx.operations(ResourceType.TOPIC, topic.name),
    )


def _partition(
    index: int, assignment: PartitionRegistration, alive: Set[int], *, is_offline: bool
) -> DescribeTopicPartitionsResponsePartition:
    """A partition whose log is offline has no leader, as in `metadata`; its last leader may lead it again (KIP-966)."""
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.none,
        partition_index=index,
        leader_id=NO_LEADER if is_offline or assignment.leader not in alive else assignment.leader,
        leader_epoch=assignment.leader_epoch,
        replica_nodes=assignment.replicas,
        isr_nodes=() if is_offline else assignment.isr,
        eligible_leader_replicas=assignment.isr if is_offline else assignment.elr,
        last_known_elr=assignment.isr if is_offline else assignment.last_known_elr,
        offline_replicas=tuple(node_id for node_id in assignment.replicas if is_offline or node_id not in alive),
    )
