"""ConsumerGroupDescribe 0-1 (KIP-848; Kafka's `GroupCoordinatorService.consumerGroupDescribe`)."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from kio.schema.consumer_group_describe.v1 import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from kio.schema.consumer_group_describe.v1.response import Assignment as DescribedAssignment
from kio.schema.consumer_group_describe.v1.response import DescribedGroup, Member
from kio.schema.consumer_group_describe.v1.response import TopicPartitions as DescribedTopicPartitions
from kio.schema.errors import ErrorCode

from broker.coordinators.group_coordinator import require_consumer_protocol
from broker.handlers.group_describe import describe_each, failed_group, operations_on, require_visible
from broker.request_context import RequestContext
from coordinator.group.consumer.describe import DescribedConsumerGroup, DescribedMember, TopicAssignment, describe
from coordinator.group.group_coordinator_shard import GroupCoordinatorShard
from protocol.durations import ZERO
from protocol.errors import KafkaError

CLASSIC_MEMBER = 0
CONSUMER_MEMBER = 1


def consumer_group_describe(
    ctx: RequestContext, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse | Awaitable[ConsumerGroupDescribeResponse]:
    require_consumer_protocol(ctx.local.config, ctx.image)

    def described(state: GroupCoordinatorShard, group_id: str) -> DescribedGroup:
        groups = state.groups.consumer
        return _group(ctx, request, group_id, describe(groups, groups.get(group_id)))

    return describe_each(
        ctx,
        request,
        described,
        _failed,
        lambda groups: ConsumerGroupDescribeResponse(throttle_time=ZERO, groups=groups),
    )


def _group(
    ctx: RequestContext, request: ConsumerGroupDescribeRequest, group_id: str, found: DescribedConsumerGroup
) -> DescribedGroup:
    """Raises TopicAuthorization."""
    if ctx.permissions is not None:  # all topics that the members have, or are about to have
        topics = {each.topic for member in found.members for each in (*member.assigned, *member.target)}
        require_visible(ctx, topics)
    return DescribedGroup(
        error_code=ErrorCode.none,
        error_message=None,
        group_id=group_id,
        group_state=found.state,
        group_epoch=found.epoch,
        assignment_epoch=found.assignment_epoch,
        assignor_name=found.assignor,
        members=tuple(map(_member, found.members)),
        authorized_operations=operations_on(ctx, request, group_id),
    )


def _failed(group_id: str, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(**failed_group(group_id, error), assignor_name="")


def _member(described: DescribedMember) -> Member:
    member = described.member
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(sorted(member.topics)),
        subscribed_topic_regex=member.regex,
        assignment=_assignment(described.assigned),
        target_assignment=_assignment(described.target),
        member_type=CLASSIC_MEMBER if member.is_classic else CONSUMER_MEMBER,
    )


def _assignment(topics: Sequence[TopicAssignment]) -> DescribedAssignment:
    return DescribedAssignment(
        topic_partitions=tuple(
            DescribedTopicPartitions(
                topic_id=topic.topic_id, topic_name=topic.topic, partitions=tuple(topic.partitions)
            )
            for topic in topics
        )
    )
