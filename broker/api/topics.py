"""Topics: creation, deletion, description, and where their replicas and leaders are.

CreateTopics 2-7 (KIP-4, KIP-195, KIP-464, KIP-525), decided by `controller.create_topics`.

Deviation: the timeout is not watched while the metadata log is flushed. A timeout of zero or less expires at once, as
in Kafka.

DeleteTopics 1-6 (KIP-4, KIP-516), decided by `controller.delete_topics`.

CreatePartitions 0-3 (KIP-195), decided by `controller.create_partitions`.

Deviation: of a topic that exceeds the most partitions of a request, Kafka still creates as many as fit.

DescribeTopicPartitions 0 (KIP-966; Kafka's `DescribeTopicPartitionsRequestHandler`).

Topics are answered in order of their names, up to a limit of partitions; the cursor is where the next page starts.
Deviation: a topic with an empty name gets INVALID_TOPIC_EXCEPTION; Kafka answers UNKNOWN_SERVER_ERROR.

AlterPartitionReassignments 0-1 (KIP-455, KIP-860), decided by `controller.reassignments`.

ListPartitionReassignments 0 (KIP-455), answered from the image.

ElectLeaders 0-2 (KIP-183, KIP-460), decided by `controller.elections`.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from typing import TYPE_CHECKING

from kio.schema.alter_partition_reassignments.v1 import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from kio.schema.create_partitions.v3 import CreatePartitionsRequest, CreatePartitionsResponse
from kio.schema.create_topics.v7 import CreateTopicsRequest, CreateTopicsResponse
from kio.schema.delete_topics.v6 import DeleteTopicsRequest, DeleteTopicsResponse
from kio.schema.delete_topics.v6.request import DeleteTopicState
from kio.schema.delete_topics.v6.response import DeletableTopicResult
from kio.schema.describe_topic_partitions.v0 import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse
from kio.schema.describe_topic_partitions.v0.response import (
    Cursor,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from kio.schema.elect_leaders.v2 import ElectLeadersRequest, ElectLeadersResponse
from kio.schema.errors import ErrorCode
from kio.schema.list_partition_reassignments.v0 import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

from broker.api.metadata import NO_LEADER
from broker.membership.metadata_cache import alive_ids
from broker.network.ports import Handler
from broker.request_context import RequestContext
from controller.create_partitions import decide as decide_partitions
from controller.create_topics import TopicCreation
from controller.delete_topics import TopicDeletion
from controller.elections import Elections
from controller.reassignments import Reassignments, listed
from metadata import topic_names
from metadata.acls import AclOperation, ResourceType
from protocol.durations import ZERO
from protocol.errors import InvalidRequest, KafkaError, TopicAuthorization, TopicDeletionDisabled

if TYPE_CHECKING:
    from metadata.topics import PartitionRegistration, TopicImage


CREATE_TOPICS_WITH_QUOTAS = 6


async def create_topics(ctx: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
    controller = ctx.controller
    quota = ctx.local.throttling.mutations(ctx, strict=ctx.version >= CREATE_TOPICS_WITH_QUOTAS)
    creation = TopicCreation(request, controller.around, quota)
    while await controller.submit(creation.step):
        pass
    response = creation.response
    return response if ctx.permissions is None else _without_hidden_configs(ctx, response)


def _without_hidden_configs(ctx: RequestContext, response: CreateTopicsResponse) -> CreateTopicsResponse:
    """The response without the configurations that the client may not describe."""
    return replace(
        response,
        topics=tuple(
            topic
            if topic.error_code is not ErrorCode.none
            or ctx.allows(AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, topic.name, log_denied=False)
            else replace(
                topic,
                num_partitions=-1,
                replication_factor=-1,
                configs=(),
                topic_config_error_code=ErrorCode.topic_authorization_failed,
            )
            for topic in response.topics
        ),
    )


FIRST_VERSION_THAT_KNOWS_DISABLED = 3
DELETE_TOPICS_WITH_QUOTAS = 5


async def _delete_topics(ctx: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    if not ctx.local.config.boolean("delete.topic.enable"):
        if ctx.version < FIRST_VERSION_THAT_KNOWS_DISABLED:
            raise InvalidRequest("Topic deletion is disabled.")
        raise TopicDeletionDisabled
    quota = ctx.local.throttling.mutations(ctx, strict=ctx.version >= DELETE_TOPICS_WITH_QUOTAS)
    deletion = TopicDeletion(request, quota)
    while await ctx.controller.submit(deletion.step):
        pass
    return deletion.response


def _failed_as_a_whole(ctx: RequestContext, request: DeleteTopicsRequest, error: KafkaError) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(
        throttle_time=ZERO,
        responses=tuple(
            DeletableTopicResult(
                name=topic.name if topic.topic_id is None else _name_of(ctx, topic, error),
                topic_id=topic.topic_id,
                error_code=error.code,
                error_message=error.explicit_message,
            )
            for topic in request.topics
        ),
    )


def _name_of(ctx: RequestContext, asked: DeleteTopicState, error: KafkaError) -> str | None:
    """The name of a topic that is asked for by id: shown to who may describe it, but not delete it."""
    topic = ctx.image.topics.by_id(asked.topic_id) if isinstance(error, TopicAuthorization) else None
    if topic is None or not ctx.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, topic.name):
        return asked.name
    return topic.name


delete_topics = Handler(_delete_topics, failed=_failed_as_a_whole)


CREATE_PARTITIONS_WITH_QUOTAS = 3


async def create_partitions(ctx: RequestContext, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    quota = ctx.local.throttling.mutations(ctx, strict=ctx.version >= CREATE_PARTITIONS_WITH_QUOTAS)
    return await ctx.controller.submit(lambda image: decide_partitions(image, request, quota))


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


async def alter_partition_reassignments(
    ctx: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    controller = ctx.controller
    reassignments = Reassignments(request, controller.around.schema)
    while await controller.submit(reassignments.step):
        pass
    return reassignments.response


def list_partition_reassignments(
    ctx: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    asked = None if request.topics is None else [(topic.name, topic.partition_indexes) for topic in request.topics]
    return listed(ctx.image, asked)


async def elect_leaders(ctx: RequestContext, request: ElectLeadersRequest) -> ElectLeadersResponse:
    controller = ctx.controller
    elections = Elections(request, controller.around)
    while await controller.submit(elections.step):
        pass
    return elections.response
