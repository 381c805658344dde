"""ConsumerGroupDescribe 0-1 (KIP-848; Kafka's `GroupCoordinatorService.consumerGroupDescribe`)."""

from __future__ import annotations

from collections.abc import Awaitable
from itertools import chain

from kio.schema.consumer_group_describe.v1 import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from kio.schema.consumer_group_describe.v1.response import Assignment, DescribedGroup, Member, TopicPartitions
from kio.schema.errors import ErrorCode

from broker.coordinators.group_coordinator import require_consumer_protocol
from broker.handlers.group_describe import describe_each, failed_group, operations_on, require_visible
from broker.request_context import RequestContext
from coordinator.group.consumer.group import NO_PARTITIONS, ConsumerGroup
from coordinator.group.group_coordinator_shard import GroupCoordinatorShard
from coordinator.group.modern.groups import ModernGroups
from coordinator.group.modern.topics import TopicsPort
from protocol.coordinator_records.record_schema import Partitions
from protocol.durations import ZERO
from protocol.errors import KafkaError

ONLY_READS = True

CLASSIC_MEMBER = 0
CONSUMER_MEMBER = 1


def handle(
    ctx: RequestContext, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse | Awaitable[ConsumerGroupDescribeResponse]:
    require_consumer_protocol(ctx.local.config, ctx.image)

    def described(state: GroupCoordinatorShard, group_id: str) -> DescribedGroup:
        groups = state.groups.modern
        group = describe(groups, groups.get(ConsumerGroup, group_id), operations_on(ctx, request, group_id))
        if ctx.permissions is not None:  # all topics that the members have, or are about to have
            parts = [part for member in group.members for part in (member.assignment, member.target_assignment)]
            require_visible(ctx, {topic.topic_name for part in parts for topic in part.topic_partitions})
        return group

    return describe_each(
        ctx,
        request,
        described,
        _failed,
        lambda groups: ConsumerGroupDescribeResponse(throttle_time=ZERO, groups=groups),
    )


def describe(groups: ModernGroups, group: ConsumerGroup, operations: int) -> DescribedGroup:
    """Kafka's `ConsumerGroup.asDescribedGroup`; the assignor is the one that the members prefer."""
    members = group.members.values()
    return DescribedGroup(
        error_code=ErrorCode.none,
        error_message=None,
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.preferred_assignor(groups.consumer_config.assignors),
        members=tuple(
            Member(
                member_id=member.member_id,
                instance_id=member.instance_id,
                rack_id=member.rack_id,
                member_epoch=member.epoch,
                client_id=member.client_id,
                client_host=member.client_host,
                subscribed_topic_names=tuple(sorted(member.topics)),
                subscribed_topic_regex=member.regex,
                assignment=_assignment(groups.topics, member.assigned, member.pending_revocation),
                target_assignment=_assignment(groups.topics, group.target.get(member.member_id, NO_PARTITIONS)),
                member_type=CLASSIC_MEMBER if member.is_classic else CONSUMER_MEMBER,
            )
            for member in members
        ),
        authorized_operations=operations,
    )


def _assignment(topics: TopicsPort, *parts: Partitions) -> Assignment:
    """The partitions by their topics' names, without topics that no longer exist.

    A member has what it is assigned, and what it is to give up and has not yet.
    """
    images = [image for image in map(topics.by_id, dict.fromkeys(chain(*parts))) if image is not None]
    return Assignment(
        topic_partitions=tuple(
            TopicPartitions(
                topic_id=image.id,
                topic_name=image.name,
                partitions=tuple(sorted(frozenset[int]().union(*(part.get(image.id, ()) for part in parts)))),
            )
            for image in sorted(images, key=lambda image: image.name)
        )
    )


def _failed(group_id: str, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(**failed_group(group_id, error), assignor_name="")


def error_response(
    ctx: RequestContext, request: ConsumerGroupDescribeRequest, error: KafkaError
) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(
        throttle_time=ZERO, groups=tuple(_failed(group_id, error) for group_id in request.group_ids)
    )
