"""ShareGroupDescribe 1 (KIP-932; Kafka's `GroupCoordinatorService.shareGroupDescribe`)."""

from __future__ import annotations

from collections.abc import Awaitable

from kio.schema.errors import ErrorCode
from kio.schema.share_group_describe.v1 import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from kio.schema.share_group_describe.v1.response import Assignment as DescribedAssignment
from kio.schema.share_group_describe.v1.response import DescribedGroup, Member
from kio.schema.share_group_describe.v1.response import TopicPartitions as DescribedTopicPartitions

from broker.handlers.group_describe import describe_each, failed_group, operations_on, require_visible
from broker.handlers.share_requests import require_share_groups
from broker.request_context import RequestContext
from coordinator.group.group_coordinator_shard import GroupCoordinatorShard
from coordinator.group.share.group import ShareMember
from metadata.topics import TopicImage
from protocol.durations import ZERO
from protocol.errors import KafkaError

ASSIGNOR = "simple"


def share_group_describe(
    ctx: RequestContext, request: ShareGroupDescribeRequest
) -> ShareGroupDescribeResponse | Awaitable[ShareGroupDescribeResponse]:
    require_share_groups(ctx)

    def describe(state: GroupCoordinatorShard, group_id: str) -> DescribedGroup:
        state.groups.require_share(group_id)
        group = state.groups.share.get(group_id)
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
