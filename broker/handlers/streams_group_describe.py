"""StreamsGroupDescribe 0-1 (KIP-1071, KIP-1331; Kafka's `GroupCoordinatorService.streamsGroupDescribe`)."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping

from kio.schema.errors import ErrorCode
from kio.schema.streams_group_describe.v0.response import (
    Assignment,
    KeyValue,
    Member,
    Subtopology,
    TopicInfo,
)
from kio.schema.streams_group_describe.v0.response import (
    Endpoint as DescribedEndpoint,
)
from kio.schema.streams_group_describe.v0.response import (
    TaskIds as DescribedTaskIds,
)
from kio.schema.streams_group_describe.v0.response import (
    TaskOffset as DescribedTaskOffset,
)
from kio.schema.streams_group_describe.v0.response import (
    Topology as DescribedTopology,
)

from broker.handlers.group_describe import describe_each, failed_group, operations_on, require_visible
from broker.handlers.streams_requests import require_streams_groups
from broker.request_context import RequestContext
from coordinator.group.group_coordinator_shard import GroupCoordinatorShard
from coordinator.group.streams.configured import ConfiguredTopology
from coordinator.group.streams.group import StreamsGroup
from coordinator.group.streams.member import StreamsMember
from coordinator.group.streams.tasks import Task
from coordinator.group.streams.topology import required_topics
from protocol.coordinator_records import streams_group_values as values
from protocol.durations import ZERO
from protocol.errors import KafkaError
from protocol.newer.streams_group_describe_v1 import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)

ASSIGNOR = "sticky"
NOT_ASKED_FOR, NOT_KEPT = 0, 1
"""The status of a description of the topology that the client did not want, and where no plugin keeps them."""


def streams_group_describe(
    ctx: RequestContext, request: StreamsGroupDescribeRequest
) -> StreamsGroupDescribeResponse | Awaitable[StreamsGroupDescribeResponse]:
    require_streams_groups(ctx)

    def describe(state: GroupCoordinatorShard, group_id: str) -> DescribedGroup:
        state.groups.require_streams(group_id)
        group = state.groups.streams.get(group_id)
        require_visible(ctx, () if group.topology is None else required_topics(group.topology))
        return DescribedGroup(
            error_code=ErrorCode.none,
            error_message=None,
            group_id=group_id,
            group_state=group.state_name,
            group_epoch=group.epoch,
            assignment_epoch=group.assignment_epoch,
            topology=None if group.topology is None else _topology(group.topology, group.configured),
            members=tuple(_member(group, member) for member in group.members.values()),
            authorized_operations=operations_on(ctx, request, group_id),
            topology_description_status=NOT_KEPT if request.include_topology_description else NOT_ASKED_FOR,
            assignor_name=ASSIGNOR,
        )

    return describe_each(
        ctx, request, describe, _failed, lambda groups: StreamsGroupDescribeResponse(throttle_time=ZERO, groups=groups)
    )


def _topology(topology: values.StreamsGroupTopologyValue, configured: ConfiguredTopology | None) -> DescribedTopology:
    """The topology; internal topics have the partition counts that were decided, once all is ready."""
    counts = configured.counts if configured is not None and configured.is_ready else {}

    def topics(infos: tuple[values.TopicInfo, ...]) -> tuple[TopicInfo, ...]:
        return tuple(
            TopicInfo(
                name=topic.name,
                partitions=counts.get(topic.name, topic.partitions),
                replication_factor=topic.replication_factor,
                topic_configs=_pairs(topic.configs),
            )
            for topic in sorted(infos)
        )

    return DescribedTopology(
        epoch=topology.epoch,
        subtopologies=tuple(
            Subtopology(
                subtopology_id=each.subtopology_id,
                source_topics=tuple(sorted(each.source_topics)),
                repartition_sink_topics=tuple(sorted(each.repartition_sinks)),
                state_changelog_topics=topics(each.changelogs),
                repartition_source_topics=topics(each.repartition_sources),
            )
            for each in topology.subtopologies
        ),
    )


def _pairs(pairs: tuple[tuple[str, str], ...]) -> tuple[KeyValue, ...]:
    return tuple(KeyValue(key=key, value=value) for key, value in pairs)


def _member(group: StreamsGroup, member: StreamsMember) -> Member:
    endpoint = member.user_endpoint
    return Member(
        member_id=member.member_id,
        member_epoch=member.epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else DescribedEndpoint(host=endpoint.host, port=endpoint.port),
        client_tags=_pairs(member.client_tags),
        task_offsets=_offsets(group.offsets.get(member.member_id, {})),
        task_end_offsets=_offsets(group.end_offsets.get(member.member_id, {})),
        assignment=_assignment(member.assigned),
        target_assignment=_assignment(group.target_of(member.member_id)),
        is_classic=False,
    )


def _offsets(offsets: Mapping[Task, int]) -> tuple[DescribedTaskOffset, ...]:
    return tuple(
        DescribedTaskOffset(subtopology_id=subtopology, partition=partition, offset=offset)
        for (subtopology, partition), offset in offsets.items()
    )


def _assignment(tasks: values.Tasks) -> Assignment:
    active, standby, warmup = (
        tuple(
            DescribedTaskIds(subtopology_id=subtopology, partitions=tuple(sorted(partitions)))
            for subtopology, partitions in role.items()
        )
        for role in tasks
    )
    return Assignment(active_tasks=active, standby_tasks=standby, warmup_tasks=warmup)


def _failed(group_id: str, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(
        **failed_group(group_id, error), topology=None, topology_description_status=NOT_ASKED_FOR, assignor_name=None
    )
