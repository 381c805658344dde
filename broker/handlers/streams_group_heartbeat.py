"""StreamsGroupHeartbeat 0-1 (KIP-1071; Kafka's `GroupCoordinatorService.streamsGroupHeartbeat` and `KafkaApis`)."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable

from kio.schema.create_topics.v7.request import CreatableTopic
from kio.schema.errors import ErrorCode
from kio.schema.streams_group_heartbeat.v0.request import HeartbeatTaskIds as OwnedTaskIds
from kio.schema.streams_group_heartbeat.v0.request import TaskOffset as HeartbeatTaskOffset
from kio.schema.streams_group_heartbeat.v0.request import TopicInfo as RequestTopicInfo
from kio.schema.streams_group_heartbeat.v0.request import Topology as HeartbeatTopology
from kio.schema.streams_group_heartbeat.v0.response import (
    Endpoint as HeartbeatEndpoint,
)
from kio.schema.streams_group_heartbeat.v0.response import (
    EndpointToPartitions,
    Status,
    TopicPartition,
)
from kio.schema.streams_group_heartbeat.v0.response import (
    TaskIds as HeartbeatTaskIds,
)

from broker.cluster.internal_topics import BY_DEFAULT, wanted
from broker.handlers.streams_requests import require_streams_groups
from broker.network.answers import when_done
from broker.request_context import RequestContext
from coordinator.group.streams import configured
from coordinator.group.streams.configured import InternalTopic, Problem
from coordinator.group.streams.membership import check_request
from coordinator.group.streams.messages import EndpointPartitions, StreamsHeartbeat, StreamsHeartbeatAnswer
from coordinator.group.streams.tasks import Task
from coordinator.group.streams.topology import check_names
from metadata.acls import CLUSTER_NAME, AclOperation, ResourceType
from metadata.topic_names import invalid_reason, is_internal
from protocol.coordinator_records import streams_group_values as values
from protocol.durations import MILLISECOND, ZERO
from protocol.errors import InvalidRequest, TopicAuthorization
from protocol.newer.streams_group_heartbeat_v1 import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse

Answer = StreamsGroupHeartbeatResponse


def streams_group_heartbeat(ctx: RequestContext, request: StreamsGroupHeartbeatRequest) -> Answer | Awaitable[Answer]:
    require_streams_groups(ctx)
    topology = None if request.topology is None else _topology(request.topology)
    if topology is not None:
        for topic in check_names(topology, _name_problem):
            if not ctx.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, topic):
                raise TopicAuthorization
    heartbeat = _heartbeat(ctx, request, topology)
    check_request(heartbeat)
    answer = ctx.coordinators.groups.write(heartbeat.group_id, lambda state: state.groups.streams_heartbeat(heartbeat))
    return when_done(answer, lambda found: _response(ctx, found))


def _name_problem(name: str) -> str | None:
    if is_internal(name):
        return f"Use of Kafka internal topics {name} in a Kafka Streams topology is prohibited."
    return invalid_reason(name)


# -- the request


def _heartbeat(
    ctx: RequestContext, request: StreamsGroupHeartbeatRequest, topology: values.StreamsGroupTopologyValue | None
) -> StreamsHeartbeat:
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
        offsets=_offsets(request.task_offsets),
        end_offsets=_offsets(request.task_end_offsets),
        shuts_down=request.shutdown_application,
        client_id=ctx.client_id or "",
        client_host=f"/{ctx.connection.client_address}",
        knows_tags=ctx.version >= 1,
    )


def _owned(tasks: Iterable[OwnedTaskIds]) -> values.TaskIds:
    found: dict[str, set[int]] = {}
    for each in tasks:
        found.setdefault(each.subtopology_id, set()).update(each.partitions)
    return {subtopology_id: frozenset(partitions) for subtopology_id, partitions in found.items()}


def _offsets(offsets: tuple[HeartbeatTaskOffset, ...] | None) -> tuple[tuple[Task, int], ...] | None:
    if offsets is None:
        return None
    return tuple(((each.subtopology_id, each.partition), each.offset) for each in offsets)


def _topology(topology: HeartbeatTopology) -> values.StreamsGroupTopologyValue:
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


def _topic(topic: RequestTopicInfo) -> values.TopicInfo:
    configs = tuple((each.key, each.value) for each in topic.topic_configs)
    return values.TopicInfo(topic.name, topic.partitions, topic.replication_factor, configs)


# -- the answer


def _response(ctx: RequestContext, answer: StreamsHeartbeatAnswer) -> Answer:
    assigned = answer.assigned
    return Answer(
        throttle_time=ZERO,
        error_code=ErrorCode.none,
        error_message=None,
        member_id=answer.member_id,
        member_epoch=answer.member_epoch,
        heartbeat_interval=answer.heartbeat_interval_ms * MILLISECOND,
        task_offset_interval=answer.task_offset_interval_ms * MILLISECOND,
        acceptable_recovery_offset_lag=answer.acceptable_recovery_lag,
        status=tuple(
            Status(status_code=problem.status, status_detail=problem.detail) for problem in _statuses(ctx, answer)
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
    missing = configured.Status.MISSING_INTERNAL_TOPICS
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


def _task_ids(tasks: values.TaskIds) -> tuple[HeartbeatTaskIds, ...]:
    return tuple(
        HeartbeatTaskIds(subtopology_id=subtopology, partitions=tuple(sorted(partitions)))
        for subtopology, partitions in tasks.items()
    )


def _endpoint(found: EndpointPartitions) -> EndpointToPartitions:
    host, port = found.endpoint
    active, standby = (
        tuple(TopicPartition(topic=topic, partitions=tuple(indexes)) for topic, indexes in partitions.items())
        for partitions in (found.active, found.standby)
    )
    return EndpointToPartitions(
        user_endpoint=HeartbeatEndpoint(host=host, port=port), active_partitions=active, standby_partitions=standby
    )
