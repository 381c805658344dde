"""Share groups: ShareGroupHeartbeat 1, ShareGroupDescribe 1 (KIP-932; Kafka's `GroupCoordinatorService`)."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from kio.schema.errors import ErrorCode
from kio.schema.share_group_describe.v1 import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from kio.schema.share_group_describe.v1.response import Assignment as DescribedAssignment
from kio.schema.share_group_describe.v1.response import DescribedGroup, Member
from kio.schema.share_group_describe.v1.response import TopicPartitions as DescribedTopicPartitions
from kio.schema.share_group_heartbeat.v1 import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from kio.schema.share_group_heartbeat.v1.response import Assignment as HeartbeatAssignment
from kio.schema.share_group_heartbeat.v1.response import TopicPartitions as HeartbeatTopicPartitions

from broker.api.group_admin import describe_each, failed_group, operations_on, require_visible
from broker.network.answers import when_done
from broker.request_context import RequestContext
from coordinator.group.group_coordinator_shard import GroupCoordinatorShard
from coordinator.group.share.group import ShareGroup, ShareMember
from coordinator.group.share.heartbeat import (
    LONGEST_MEMBER_ID,
    ShareHeartbeat,
    ShareHeartbeatAnswer,
    check_request,
)
from coordinator.group.share.heartbeat import share_group_heartbeat as handle_heartbeat
from metadata.acls import AclOperation, ResourceType
from metadata.topics import TopicImage
from protocol.coordinator_records.record_schema import Partitions
from protocol.durations import MILLISECOND, ZERO
from protocol.errors import InvalidRequest, KafkaError, TopicAuthorization, UnsupportedVersion


class ShareRequest(Protocol):
    """A request of a member to the leader of partitions."""

    @property
    def group_id(self) -> str | None: ...

    @property
    def member_id(self) -> str | None: ...


def require_share_groups(ctx: RequestContext) -> None:
    """Raises UnsupportedVersion unless the cluster has share groups (the feature share.version)."""
    if not ctx.image.features.get("share.version", 0):
        raise UnsupportedVersion


def group_and_member(request: ShareRequest) -> tuple[str, str]:
    """Both, which must be set; a member id has 1 to 36 characters. Raises InvalidRequest, without a text."""
    if request.group_id is None or request.member_id is None:
        raise InvalidRequest
    if not 0 < len(request.member_id) <= LONGEST_MEMBER_ID:
        raise InvalidRequest
    return request.group_id, request.member_id


Answer = ShareGroupHeartbeatResponse


def share_group_heartbeat(ctx: RequestContext, request: ShareGroupHeartbeatRequest) -> Answer | Awaitable[Answer]:
    require_share_groups(ctx)
    heartbeat = ShareHeartbeat(
        request.group_id,
        request.member_id,
        request.member_epoch,
        request.rack_id,
        request.subscribed_topic_names,
        ctx.client_id or "",
        f"/{ctx.connection.client_address}",
    )
    check_request(heartbeat)
    if not all(ctx.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, topic) for topic in heartbeat.topics or ()):
        raise TopicAuthorization
    answer = ctx.coordinators.groups.write(
        heartbeat.group_id, lambda state: handle_heartbeat(state.groups.modern, heartbeat)
    )
    return when_done(answer, _response)


def _response(answer: ShareHeartbeatAnswer) -> Answer:
    return Answer(
        throttle_time=ZERO,
        error_code=ErrorCode.none,
        error_message=None,
        member_id=answer.member_id,
        member_epoch=answer.member_epoch,
        heartbeat_interval=answer.heartbeat_interval_ms * MILLISECOND,
        assignment=None if answer.assigned is None else _assignment(answer.assigned),
    )


def _assignment(partitions: Partitions) -> HeartbeatAssignment:
    return HeartbeatAssignment(
        topic_partitions=tuple(
            HeartbeatTopicPartitions(topic_id=topic, partitions=tuple(sorted(indexes)))
            for topic, indexes in partitions.items()
        )
    )


ASSIGNOR = "simple"


def share_group_describe(
    ctx: RequestContext, request: ShareGroupDescribeRequest
) -> ShareGroupDescribeResponse | Awaitable[ShareGroupDescribeResponse]:
    require_share_groups(ctx)

    def describe(state: GroupCoordinatorShard, group_id: str) -> DescribedGroup:
        group = state.groups.modern.get(ShareGroup, group_id)
        require_visible(ctx, {topic.name for one in group.members.values() for topic in _topics(ctx, one)})
        return DescribedGroup(
            error_code=ErrorCode.none,
            error_message=None,
            group_id=group_id,
            group_state=group.state_name,
            group_epoch=group.epoch,
            assignment_epoch=group.assignment_epoch,
            assignor_name=ASSIGNOR,
            members=tuple(_member(ctx, member) for member in group.members.values()),
            authorized_operations=operations_on(ctx, request, group_id),
        )

    return describe_each(
        ctx, request, describe, _failed, lambda groups: ShareGroupDescribeResponse(throttle_time=ZERO, groups=groups)
    )


def _topics(ctx: RequestContext, member: ShareMember) -> list[TopicImage]:
    """The topics that the member has partitions of, as far as they exist."""
    found = map(ctx.image.topics.by_id, member.assigned)
    return [topic for topic in found if topic is not None]


def _member(ctx: RequestContext, member: ShareMember) -> Member:
    return Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.topics,
        assignment=DescribedAssignment(
            topic_partitions=tuple(
                DescribedTopicPartitions(
                    topic_id=topic.id, topic_name=topic.name, partitions=tuple(sorted(member.assigned[topic.id]))
                )
                for topic in _topics(ctx, member)
            )
        ),
    )


def _failed(group_id: str, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(**failed_group(group_id, error), assignor_name="")
