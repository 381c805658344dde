"""Metadata 0-13 (KIP-4, KIP-430, KIP-516; Kafka's `KafkaApis.handleTopicMetadataRequest`)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.metadata.v13.request import MetadataRequest, MetadataRequestTopic
from kio.schema.metadata.v13.response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

from broker.metadata.topics import PartitionAssignment, Topic
from broker.network.context import RequestContext
from broker.security import authorized_operations
from metadata import topic_names
from protocol.durations import ZERO
from protocol.errors import InvalidRequest, KafkaError, UnknownServerError
from protocol.java_collections import in_hash_order, in_mutable_set_order, in_set_order, java_numbers_hash

if TYPE_CHECKING:
    from broker.partitions.hosted import Partitions

NO_LEADER = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Response(MetadataResponse):
    """The newest response, plus the fields that only versions 8 to 10 had."""

    cluster_authorized_operations: int = authorized_operations.UNKNOWN


FIRST_VERSION_WHERE_EMPTY_IS_NONE = 1
FIRST_VERSION_WITH_TOPIC_ID_REQUESTS = 12
VERSIONS_WITH_CLUSTER_OPERATIONS = range(8, 11)


def handle(ctx: RequestContext, request: MetadataRequest) -> MetadataResponse:
    """Topics by name or id, or all, in the order of Kafka's hash maps and sets.

    A topic that has yet to be created is UNKNOWN_TOPIC_OR_PARTITION until it exists, as in Kafka.
    """
    wanted = request.topics
    if wanted is None or (not wanted and ctx.version < FIRST_VERSION_WHERE_EMPTY_IS_NONE):
        return _response(ctx, [_by_name(ctx, request, name) for name in in_hash_order(_all_names(ctx))])
    _validate(ctx, wanted)
    if any(topic.topic_id is not None for topic in wanted):
        return _response(ctx, _by_ids(ctx, request, wanted))
    if any(topic.name is None for topic in wanted):
        raise UnknownServerError("a topic with neither name nor id was asked for")  # as in Kafka
    names = in_set_order(list(dict.fromkeys(topic.name for topic in wanted if topic.name is not None)))
    found = [name for name in names if ctx.node.topics.get(name) is not None]
    missing = in_set_order([name for name in names if ctx.node.topics.get(name) is None], of=len(names))
    if missing and request.allow_auto_topic_creation and ctx.node.config.boolean("auto.create.topics.enable"):
        valid = in_hash_order([name for name in missing if topic_names.invalid_reason(name) is None])
        ctx.node.auto_topics.begin(valid, ctx.node.throttling.mutations(ctx).charge)
        missing = [name for name in missing if topic_names.invalid_reason(name) is not None] + valid
    return _response(ctx, [_by_name(ctx, request, name) for name in found + missing])


def error_response(ctx: RequestContext, request: MetadataRequest, error: KafkaError) -> MetadataResponse:
    """The error at the top (version 13) and for every requested topic."""
    topics = tuple(
        replace(
            _topic_error(error.code, topic.name or "", topic.topic_id if ctx.version >= 10 else None),
            is_internal=False,  # whatever its name
        )
        for topic in request.topics or ()
    )
    return MetadataResponse(throttle_time=ZERO, brokers=(), cluster_id=None, topics=topics, error_code=error.code)


def _validate(ctx: RequestContext, wanted: tuple[MetadataRequestTopic, ...]) -> None:
    for topic in wanted:
        if topic.name is None and ctx.version < FIRST_VERSION_WITH_TOPIC_ID_REQUESTS:
            raise InvalidRequest("Topic name can not be null")
        if topic.topic_id is not None and ctx.version < FIRST_VERSION_WITH_TOPIC_ID_REQUESTS:
            raise InvalidRequest("Topic IDs are not supported in requests before version 12")


def _all_names(ctx: RequestContext) -> list[str]:
    return [topic.name for topic in ctx.node.topics.all()]


def _response(ctx: RequestContext, topics: list[MetadataResponseTopic]) -> MetadataResponse:
    node = ctx.node
    address = node.advertised[ctx.connection.listener_name]
    broker = MetadataResponseBroker(
        node_id=node.node_id, host=address.host, port=address.port, rack=node.config.optional_string("broker.rack")
    )
    with_operations = ctx.version in VERSIONS_WITH_CLUSTER_OPERATIONS
    cluster_operations = with_operations and ctx.raw.include_cluster_authorized_operations
    return Response(
        throttle_time=ZERO,
        brokers=(broker,),
        cluster_id=node.cluster_id,
        controller_id=node.node_id,
        topics=tuple(topics),
        error_code=ErrorCode.none,
        cluster_authorized_operations=authorized_operations.CLUSTER
        if cluster_operations
        else authorized_operations.UNKNOWN,
    )


def _by_ids(
    ctx: RequestContext, request: MetadataRequest, wanted: Iterable[MetadataRequestTopic]
) -> list[MetadataResponseTopic]:
    """Unknown ids, then the known ones by their names."""
    distinct = dict.fromkeys(topic.topic_id for topic in wanted)
    ids = in_set_order([topic_id for topic_id in distinct if topic_id is not None], of=len(distinct))
    topics = {topic_id: ctx.node.topics.by_id(topic_id) for topic_id in ids}
    unknown = in_set_order([topic_id for topic_id in ids if topics[topic_id] is None], of=len(distinct))
    names = in_set_order([topic.name for topic in topics.values() if topic is not None], of=len(distinct))
    return [_topic_error(ErrorCode.unknown_topic_id, None, topic_id) for topic_id in unknown] + [
        _by_name(ctx, request, name) for name in names
    ]


def _by_name(ctx: RequestContext, request: MetadataRequest, name: str) -> MetadataResponseTopic:
    topic = ctx.node.topics.get(name)
    if topic is not None:
        return _known(ctx, request, topic)
    invalid = topic_names.invalid_reason(name) is not None
    code = ErrorCode.invalid_topic_exception if invalid else ErrorCode.unknown_topic_or_partition
    return _topic_error(code, name, None, _operations(request))


def _operations(request: MetadataRequest) -> int:
    """What a client may do to a topic; reported even for topics that do not exist."""
    wanted = request.include_topic_authorized_operations
    return authorized_operations.TOPIC if wanted else authorized_operations.UNKNOWN


def _topic_error(
    code: ErrorCode, name: str | None, topic_id: UUID | None, operations: int = authorized_operations.UNKNOWN
) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=code,
        name=name,
        topic_id=topic_id,
        is_internal=name is not None and topic_names.is_internal(name),
        partitions=(),
        topic_authorized_operations=operations,
    )


def _known(ctx: RequestContext, request: MetadataRequest, topic: Topic) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=ErrorCode.none,
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=_without_offline_leaders(ctx.node.partitions, topic, _partitions(topic.partitions)),
        topic_authorized_operations=_operations(request),
    )


def _without_offline_leaders(
    hosted: Partitions, topic: Topic, partitions: tuple[MetadataResponsePartition, ...]
) -> tuple[MetadataResponsePartition, ...]:
    """The partitions; one whose log is offline has no leader.

    Kafka's controller also bumps the leader epoch. Ours stays, as clients would then reject any older one.
    """
    offline = hosted.offline_of(topic)
    if not offline:
        return partitions
    return _in_order(_leaderless(one) if one.partition_index in offline else one for one in partitions)


def _leaderless(partition: MetadataResponsePartition) -> MetadataResponsePartition:
    return replace(
        partition,
        error_code=ErrorCode.leader_not_available,
        leader_id=NO_LEADER,
        isr_nodes=(),
        offline_replicas=partition.replica_nodes,
    )


@lru_cache(maxsize=256)  # most topics of a node have the same layout as others
def _partitions(assignments: tuple[PartitionAssignment, ...]) -> tuple[MetadataResponsePartition, ...]:
    return _in_order(
        MetadataResponsePartition(
            error_code=ErrorCode.none,
            partition_index=index,
            leader_id=partition.leader,
            leader_epoch=partition.leader_epoch,
            replica_nodes=partition.replicas,
            isr_nodes=partition.isr,
        )
        for index, partition in enumerate(assignments)
    )


def _in_order(partitions: Iterable[MetadataResponsePartition]) -> tuple[MetadataResponsePartition, ...]:
    """The order of Kafka's set of these, which is that of the hashes of all they say."""
    return tuple(in_mutable_set_order([*partitions], _hash))


def _hash(partition: MetadataResponsePartition) -> int:
    fields = (partition.error_code, partition.partition_index, partition.leader_id, partition.leader_epoch)
    nodes = (partition.replica_nodes, partition.isr_nodes, partition.offline_replicas)
    return java_numbers_hash((*fields, *map(java_numbers_hash, nodes)), start=0)
