"""Streams groups: StreamsGroupHeartbeat 0-1 (KIP-1071), StreamsGroupDescribe 0-1 (KIP-1071, KIP-1331).

Kafka's `GroupCoordinatorService.streamsGroupHeartbeat` and `streamsGroupDescribe`; `modern_groups.py` has their course.
Descriptions of topologies are refused: no plugin keeps any (KIP-1331).
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Awaitable, Iterable, Mapping
from functools import partial
from typing import Any, NoReturn

from kio.schema.create_topics.v7.request import CreatableTopic
from kio.schema.errors import ErrorCode
from kio.schema.streams_group_describe.v0 import response as described
from kio.schema.streams_group_heartbeat.v0 import request as asked
from kio.schema.streams_group_heartbeat.v0 import response as answered

from broker.api.modern_groups import descriptions, heartbeats, member_fields, require_topics
from broker.membership.auto_create import BY_DEFAULT, wanted
from broker.network.answers import when_done
from broker.request_context import RequestContext
from coordinator.group.modern.groups import ModernGroups
from coordinator.group.streams.group import (
    EndpointPartitions,
    StreamsGroup,
    StreamsHeartbeat,
    StreamsHeartbeatAnswer,
    StreamsMember,
    Task,
    check_request,
)
from coordinator.group.streams.heartbeat import streams_group_heartbeat as operation
from coordinator.group.streams.topology import (
    ConfiguredTopology,
    InternalTopic,
    Problem,
    check_names,
    named_topics,
    required_topics,
)
from coordinator.group.streams.topology import Status as StatusCode
from metadata.acls import CLUSTER_NAME, AclOperation, ResourceType
from metadata.topic_names import invalid_reason, is_internal
from protocol.coordinator_records import streams_group_records as values
from protocol.durations import MILLISECOND, ZERO
from protocol.errors import InvalidRequest, UnsupportedVersion
from protocol.newer.streams import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)

OFFER = "streams.version", "streams"


def _name_problem(name: str) -> str | None:
    if is_internal(name):
        return f"Use of Kafka internal topics {name} in a Kafka Streams topology is prohibited."
    return invalid_reason(name)


# -- the request


def _read(ctx: RequestContext, request: StreamsGroupHeartbeatRequest) -> StreamsHeartbeat:
    """Raises InvalidRequest, and InvalidTopic for names in the topology."""
    topology = None if request.topology is None else _heartbeat_topology(request.topology)
    if topology is not None:
        check_names(topology, _name_problem)
    owned = None
    kinds = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if any(kind is not None for kind in kinds):
        if any(kind is None for kind in kinds):
            raise InvalidRequest("ActiveTasks, StandbyTasks and WarmupTasks must be given together, or none of them.")
        owned = values.Tasks(*(_owned(kind or ()) for kind in kinds))
    endpoint = request.user_endpoint
    tags = request.client_tags
    return StreamsHeartbeat(
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        endpoint_epoch=request.endpoint_information_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout // MILLISECOND,
        topology=topology,
        owned=owned,
        process_id=request.process_id,
        user_endpoint=None if endpoint is None else values.Endpoint(endpoint.host, endpoint.port),
        client_tags=None if tags is None else tuple((tag.key, tag.value) for tag in tags),
        offsets=_heartbeat_offsets(request.task_offsets),
        end_offsets=_heartbeat_offsets(request.task_end_offsets),
        shuts_down=request.shutdown_application,
        client_id=ctx.client_id or "",
        client_host=f"/{ctx.connection.client_address}",
        knows_tags=ctx.version >= 1,
    )


def _owned(tasks: Iterable[asked.TaskIds]) -> values.TaskIds:
    found: dict[str, set[int]] = {}
    for each in tasks:
        found.setdefault(each.subtopology_id, set()).update(each.partitions)
    return {subtopology_id: frozenset(partitions) for subtopology_id, partitions in found.items()}


def _heartbeat_offsets(offsets: tuple[asked.TaskOffset, ...] | None) -> tuple[tuple[Task, int], ...] | None:
    if offsets is None:
        return None
    return tuple(((each.subtopology_id, each.partition), each.offset) for each in offsets)


def _heartbeat_topology(topology: asked.Topology) -> values.StreamsGroupTopologyValue:
    return values.StreamsGroupTopologyValue(
        topology.epoch,
        tuple(
            values.Subtopology(
                each.subtopology_id,
                tuple(each.source_topics),
                tuple(each.source_topic_regex),
                tuple(map(_topic, each.state_changelog_topics)),
                tuple(each.repartition_sink_topics),
                tuple(map(_topic, each.repartition_source_topics)),
                tuple(
                    values.CopartitionGroup(
                        tuple(group.source_topics),
                        tuple(group.source_topic_regex),
                        tuple(group.repartition_source_topics),
                    )
                    for group in each.copartition_groups
                ),
            )
            for each in topology.subtopologies
        ),
    )


def _topic(topic: asked.TopicInfo) -> values.TopicInfo:
    configs = tuple((each.key, each.value) for each in topic.topic_configs)
    return values.TopicInfo(topic.name, topic.partitions, topic.replication_factor, configs)


def _authorized(ctx: RequestContext, heartbeat: StreamsHeartbeat) -> StreamsHeartbeat:
    require_topics(ctx, () if heartbeat.topology is None else named_topics(heartbeat.topology))
    return heartbeat


# -- the answer


def _answer(
    ctx: RequestContext, _: StreamsHeartbeat, answer: Future[StreamsHeartbeatAnswer]
) -> StreamsGroupHeartbeatResponse | Awaitable[StreamsGroupHeartbeatResponse]:
    return when_done(answer, partial(_response, ctx))


def _response(ctx: RequestContext, answer: StreamsHeartbeatAnswer) -> StreamsGroupHeartbeatResponse:
    assigned = answer.assigned
    return StreamsGroupHeartbeatResponse(
        throttle_time=ZERO,
        error_code=ErrorCode.none,
        error_message=None,
        member_id=answer.member_id,
        member_epoch=answer.member_epoch,
        heartbeat_interval=answer.heartbeat_interval_ms * MILLISECOND,
        task_offset_interval=answer.task_offset_interval_ms * MILLISECOND,
        acceptable_recovery_offset_lag=answer.acceptable_recovery_lag,
        status=tuple(
            answered.Status(status_code=problem.status, status_detail=problem.detail)
            for problem in _statuses(ctx, answer)
        ),
        active_tasks=None if assigned is None else _task_ids(assigned.active),
        standby_tasks=None if assigned is None else _task_ids(assigned.standby),
        warmup_tasks=None if assigned is None else _task_ids(assigned.warmup),
        topology_description_required=False,
        endpoint_information_epoch=answer.endpoint_epoch,
        partitions_by_user_endpoint=None if answer.endpoints is None else tuple(map(_endpoint, answer.endpoints)),
    )


def _statuses(ctx: RequestContext, answer: StreamsHeartbeatAnswer) -> list[Problem]:
    """What the member is told; begins to make the internal topics that are missing, and says what failed before."""
    trouble = _create(ctx, answer.to_create) if answer.to_create else ""
    missing = StatusCode.MISSING_INTERNAL_TOPICS
    return [
        problem._replace(detail=problem.detail + trouble) if problem.status is missing else problem
        for problem in answer.statuses
    ]


def _create(ctx: RequestContext, topics: tuple[InternalTopic, ...]) -> str:
    """Begin to make the topics if the client may; what is in the way."""
    if not ctx.allows(AclOperation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME):
        refused = [each.name for each in topics if not ctx.allows(AclOperation.CREATE, ResourceType.TOPIC, each.name)]
        if refused:
            return f"; Unauthorized to CREATE on topics {', '.join(sorted(refused))}."
    creation = ctx.cluster.auto_topics
    failed = [text for each in topics if (text := creation.failures.get(each.name)) is not None]
    creation.begin_wanted(map(_creatable, topics))
    return f"; Creation failed: {', '.join(failed)}." if failed else ""


def _creatable(topic: InternalTopic) -> CreatableTopic:
    return wanted(topic.name, topic.partitions, topic.replication_factor or BY_DEFAULT, dict(topic.configs))


def _task_ids(tasks: values.TaskIds) -> tuple[answered.TaskIds, ...]:
    return tuple(
        answered.TaskIds(subtopology_id=subtopology, partitions=tuple(sorted(partitions)))
        for subtopology, partitions in tasks.items()
    )


def _endpoint(found: EndpointPartitions) -> answered.EndpointToPartitions:
    host, port = found.endpoint
    active, standby = (
        tuple(answered.TopicPartition(topic=topic, partitions=tuple(indexes)) for topic, indexes in partitions.items())
        for partitions in (found.active, found.standby)
    )
    return answered.EndpointToPartitions(
        user_endpoint=answered.Endpoint(host=host, port=port), active_partitions=active, standby_partitions=standby
    )


streams_group_heartbeat = heartbeats(OFFER, _authorized, check_request, operation, _answer, _read)


# -- descriptions

ASSIGNOR = "sticky"
NOT_ASKED_FOR, NOT_KEPT = 0, 1
"""The status of a description of the topology that the client did not want, and where no plugin keeps them."""


def _describe(
    request: StreamsGroupDescribeRequest, _: ModernGroups, group: StreamsGroup
) -> tuple[dict[str, Any], Iterable[str]]:
    topology = group.topology
    fields = {
        "topology": None if topology is None else _described_topology(topology, group.configured),
        "members": tuple(_member(group, member) for member in group.members.values()),
        "topology_description_status": NOT_KEPT if request.include_topology_description else NOT_ASKED_FOR,
        "assignor_name": ASSIGNOR,
    }
    return fields, () if topology is None else required_topics(topology)


streams_group_describe = descriptions(
    OFFER,
    StreamsGroup,
    StreamsGroupDescribeResponse,
    DescribedGroup,
    _describe,
    {"topology": None, "topology_description_status": NOT_ASKED_FOR, "assignor_name": None},
)


def _described_topology(
    topology: values.StreamsGroupTopologyValue, configured: ConfiguredTopology | None
) -> described.Topology:
    """The topology; internal topics have the partition counts that were decided, once all is ready."""
    counts = configured.counts if configured is not None and configured.is_ready else {}

    def topics(infos: tuple[values.TopicInfo, ...]) -> tuple[described.TopicInfo, ...]:
        return tuple(
            described.TopicInfo(
                name=topic.name,
                partitions=counts.get(topic.name, topic.partitions),
                replication_factor=topic.replication_factor,
                topic_configs=_pairs(topic.configs),
            )
            for topic in sorted(infos)
        )

    return described.Topology(
        epoch=topology.epoch,
        subtopologies=tuple(
            described.Subtopology(
                subtopology_id=each.subtopology_id,
                source_topics=tuple(sorted(each.source_topics)),
                repartition_sink_topics=tuple(sorted(each.repartition_sinks)),
                state_changelog_topics=topics(each.changelogs),
                repartition_source_topics=topics(each.repartition_sources),
            )
            for each in topology.subtopologies
        ),
    )


def _pairs(pairs: tuple[tuple[str, str], ...]) -> tuple[described.KeyValue, ...]:
    return tuple(described.KeyValue(key=key, value=value) for key, value in pairs)


def _member(group: StreamsGroup, member: StreamsMember) -> described.Member:
    endpoint = member.user_endpoint
    return described.Member(
        **member_fields(member),
        instance_id=member.instance_id,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else described.Endpoint(host=endpoint.host, port=endpoint.port),
        client_tags=_pairs(member.client_tags),
        task_offsets=_described_offsets(group.offsets.get(member.member_id, {})),
        task_end_offsets=_described_offsets(group.end_offsets.get(member.member_id, {})),
        assignment=_assignment(member.assigned),
        target_assignment=_assignment(group.target_of(member)),
        is_classic=False,
    )


def _described_offsets(offsets: Mapping[Task, int]) -> tuple[described.TaskOffset, ...]:
    return tuple(
        described.TaskOffset(subtopology_id=subtopology, partition=partition, offset=offset)
        for (subtopology, partition), offset in offsets.items()
    )


def _assignment(tasks: values.Tasks) -> described.Assignment:
    active, standby, warmup = (
        tuple(
            described.TaskIds(subtopology_id=subtopology, partitions=tuple(sorted(partitions)))
            for subtopology, partitions in role.items()
        )
        for role in tasks
    )
    return described.Assignment(active_tasks=active, standby_tasks=standby, warmup_tasks=warmup)


def streams_group_topology_description_update(_ctx: RequestContext, _request: Any) -> NoReturn:
    """No plugin keeps descriptions of topologies (KIP-1331). Raises UnsupportedVersion."""
    raise UnsupportedVersion("This broker keeps no descriptions of topologies.")
