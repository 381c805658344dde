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

from broker.membership.metadata_cache import alive, alive_ids, controller_id
from broker.request_context import RequestContext
from broker.security import permissions as authorized_operations
from metadata import topic_names
from metadata.acls import CLUSTER_NAME, AclOperation, ResourceType
from metadata.maps import Map
from metadata.topics import PartitionRegistration, TopicImage, in_order
from protocol.durations import ZERO
from protocol.errors import InvalidRequest

if TYPE_CHECKING:
    from broker.replication.replica_manager import ReplicaManager

NO_LEADER = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Response(MetadataResponse):
    """The newest response, plus the fields that only versions 8 to 10 had."""

    cluster_authorized_operations: int = authorized_operations.UNKNOWN


FIRST_VERSION_WHERE_EMPTY_IS_NONE = 1
FIRST_VERSION_WITH_LISTENER_NOT_FOUND = 6
FIRST_VERSION_WITH_TOPIC_ID_REQUESTS = 12
VERSIONS_WITH_CLUSTER_OPERATIONS = range(8, 11)


def metadata(ctx: RequestContext, request: MetadataRequest) -> MetadataResponse:
    """Topics by name or id as requested, each once, or all by name.

    A topic that has yet to be created is UNKNOWN_TOPIC_OR_PARTITION until it exists, as in Kafka.
    """
    wanted = request.topics
    if wanted is None or (not wanted and ctx.version < FIRST_VERSION_WHERE_EMPTY_IS_NONE):
        known = ctx.image.topics.sorted()
        return _response(ctx, [_known(ctx, request, topic) for topic in known if _may_describe(ctx, topic.name)])
    _validate(ctx, wanted)
    if any(topic.topic_id is not None for topic in wanted):
        return _response(ctx, _by_ids(ctx, request, wanted))
    if any(topic.name is None for topic in wanted):
        raise InvalidRequest("A topic with neither name nor id was asked for.")
    names = list(dict.fromkeys(topic.name for topic in wanted if topic.name is not None))
    forbidden = {name for name in names if not _may_describe(ctx, name)}
    if request.allow_auto_topic_creation and ctx.local.config.boolean("auto.create.topics.enable"):
        missing = [name for name in names if name not in forbidden and ctx.image.topics.get(name) is None]
        uncreatable = {name for name in missing if not _may_create(ctx, name)}
        forbidden |= uncreatable
        valid = [name for name in missing if name not in uncreatable and topic_names.invalid_reason(name) is None]
        if valid:
            ctx.cluster.auto_topics.begin(valid, ctx.local.throttling.mutations(ctx))
    return _response(
        ctx, [_forbidden(name, None) if name in forbidden else _by_name(ctx, request, name) for name in names]
    )


def _may_describe(ctx: RequestContext, name: str) -> bool:
    return ctx.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, name)


def _may_create(ctx: RequestContext, name: str) -> bool:
    """Whether the client may create a topic by asking for it."""
    return ctx.allows(AclOperation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME, log_denied=False) or ctx.allows(
        AclOperation.CREATE, ResourceType.TOPIC, name
    )


def _validate(ctx: RequestContext, wanted: tuple[MetadataRequestTopic, ...]) -> None:
    for topic in wanted:
        if topic.name is None and ctx.version < FIRST_VERSION_WITH_TOPIC_ID_REQUESTS:
            raise InvalidRequest("Topic name can not be null")
        if topic.topic_id is not None and ctx.version < FIRST_VERSION_WITH_TOPIC_ID_REQUESTS:
            raise InvalidRequest("Topic IDs are not supported in requests before version 12")


def _response(ctx: RequestContext, topics: list[MetadataResponseTopic]) -> MetadataResponse:
    brokers = tuple(
        MetadataResponseBroker(node_id=broker.id, host=endpoint.host, port=endpoint.port, rack=broker.rack)
        for broker, endpoint in alive(ctx.image, ctx.connection.listener_name)
    )
    with_operations = ctx.version in VERSIONS_WITH_CLUSTER_OPERATIONS
    asked = with_operations and ctx.raw.include_cluster_authorized_operations
    return Response(
        throttle_time=ZERO,
        brokers=brokers,
        cluster_id=ctx.cluster.id,
        controller_id=controller_id(ctx.image),
        topics=tuple(topics),
        error_code=ErrorCode.none,
        cluster_authorized_operations=operations_on_cluster(ctx, asked),
    )


def operations_on_cluster(ctx: RequestContext, asked: bool) -> int:
    """What the client may do to the cluster, nothing if it may not describe it."""
    if asked and not ctx.allows(AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return 0
    return ctx.operations(ResourceType.CLUSTER, CLUSTER_NAME, asked=asked)


def _by_ids(
    ctx: RequestContext, request: MetadataRequest, wanted: Iterable[MetadataRequestTopic]
) -> list[MetadataResponseTopic]:
    topics: list[MetadataResponseTopic] = []
    for topic_id in dict.fromkeys(topic.topic_id for topic in wanted):
        if topic_id is not None:
            topic = ctx.image.topics.by_id(topic_id)
            if topic is None:
                topics.append(_topic_error(ErrorCode.unknown_topic_id, None, topic_id))
            elif not _may_describe(ctx, topic.name):
                topics.append(_forbidden(None, topic_id))
            else:
                topics.append(_known(ctx, request, topic))
    return topics


def _by_name(ctx: RequestContext, request: MetadataRequest, name: str) -> MetadataResponseTopic:
    topic = ctx.image.topics.get(name)
    if topic is not None:
        return _known(ctx, request, topic)
    invalid = topic_names.invalid_reason(name) is not None
    code = ErrorCode.invalid_topic_exception if invalid else ErrorCode.unknown_topic_or_partition
    asked = request.include_topic_authorized_operations  # reported even for topics that do not exist
    return _topic_error(code, name, None, ctx.operations(ResourceType.TOPIC, name, asked=asked))


def _forbidden(name: str | None, topic_id: UUID | None) -> MetadataResponseTopic:
    """The answer for a topic that the client has no right to: the same whether it exists or not."""
    return replace(_topic_error(ErrorCode.topic_authorization_failed, name, topic_id), is_internal=False)


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


def _known(ctx: RequestContext, request: MetadataRequest, topic: TopicImage) -> MetadataResponseTopic:
    knows_listeners = ctx.version >= FIRST_VERSION_WITH_LISTENER_NOT_FOUND
    without_listener = ErrorCode.listener_not_found if knows_listeners else ErrorCode.leader_not_available
    partitions = _partitions(topic.partitions, alive_ids(ctx.image, ctx.connection.listener_name), without_listener)
    return MetadataResponseTopic(
        error_code=ErrorCode.none,
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=_without_offline_leaders(ctx.replicas, topic, partitions),
        topic_authorized_operations=ctx.operations(
            ResourceType.TOPIC, topic.name, asked=request.include_topic_authorized_operations
        ),
    )


def _without_offline_leaders(
    hosted: ReplicaManager, topic: TopicImage, partitions: tuple[MetadataResponsePartition, ...]
) -> tuple[MetadataResponsePartition, ...]:
    """The partitions; one whose log is offline has no leader.

    Kafka's controller also bumps the leader epoch. Ours stays, as clients would then reject any older one.
    """
    offline = hosted.offline_of(topic)
    if not offline:
        return partitions
    return tuple(
        _leaderless(partition) if partition.partition_index in offline else partition for partition in partitions
    )


def _leaderless(partition: MetadataResponsePartition) -> MetadataResponsePartition:
    return replace(
        partition,
        error_code=ErrorCode.leader_not_available,
        leader_id=NO_LEADER,
        isr_nodes=(),
        offline_replicas=partition.replica_nodes,
    )


@lru_cache(maxsize=256)  # most topics of a node have the same layout as others
def _partitions(
    partitions: Map[int, PartitionRegistration], alive: frozenset[int], without_listener: ErrorCode
) -> tuple[MetadataResponsePartition, ...]:
    """The partitions; `alive` are the brokers that clients of this listener can reach.

    Another broker that leads a partition is not named: the error is `without_listener`.
    """
    return tuple(
        MetadataResponsePartition(
            error_code=ErrorCode.none
            if partition.leader in alive
            else (without_listener if partition.has_leader else ErrorCode.leader_not_available),
            partition_index=index,
            leader_id=partition.leader if partition.leader in alive else NO_LEADER,
            leader_epoch=partition.leader_epoch,
            replica_nodes=partition.replicas,
            isr_nodes=partition.isr,
            offline_replicas=tuple(node_id for node_id in partition.replicas if node_id not in alive),
        )
        for index, partition in in_order(partitions)
    )
