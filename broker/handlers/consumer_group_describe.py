"""ConsumerGroupDescribe 0-1 (KIP-848; Kafka's `GroupCoordinatorService.consumerGroupDescribe`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from kio.schema.consumer_group_describe.v1 import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from kio.schema.consumer_group_describe.v1.response import Assignment, DescribedGroup, Member, TopicPartitions
from kio.schema.errors import ErrorCode

from broker.coordinators.group_coordinator import require_consumer_protocol
from broker.network.answers import ask_each
from broker.request_context import RequestContext
from broker.security import authorized_operations
from coordinator.group.consumer.describe import DescribedConsumerGroup, DescribedMember, TopicAssignment, describe
from coordinator.group.group_coordinator_shard import GroupCoordinatorShard
from metadata.acls import AclOperation, ResourceType
from protocol.durations import ZERO
from protocol.errors import InvalidGroupId, KafkaError, TopicAuthorization

ONLY_READS = True

CLASSIC_MEMBER = 0
CONSUMER_MEMBER = 1

HIDDEN = "The group uses topics that the client is not authorized to describe."


def handle(
    ctx: RequestContext, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse | Awaitable[ConsumerGroupDescribeResponse]:
    require_consumer_protocol(ctx.local.config, ctx.image)
    coordinator = ctx.coordinators.groups
    named = [group_id for group_id in request.group_ids if group_id]

    def answer(found: Mapping[str, DescribedConsumerGroup | KafkaError]) -> ConsumerGroupDescribeResponse:
        described = {group_id: _group(ctx, request, group_id, group) for group_id, group in found.items()}
        described[""] = _group(ctx, request, "", InvalidGroupId())
        return ConsumerGroupDescribeResponse(
            throttle_time=ZERO, groups=tuple([described[group_id] for group_id in request.group_ids])
        )

    return ask_each(named, lambda group_id: coordinator.read(group_id, _describing(group_id)), answer)


def _describing(group_id: str) -> Callable[[GroupCoordinatorShard], DescribedConsumerGroup]:
    def operation(state: GroupCoordinatorShard) -> DescribedConsumerGroup:
        groups = state.groups.consumer
        return describe(groups, groups.get(group_id))

    return operation


def _group(
    ctx: RequestContext,
    request: ConsumerGroupDescribeRequest,
    group_id: str,
    found: DescribedConsumerGroup | KafkaError,
) -> DescribedGroup:
    if isinstance(found, DescribedConsumerGroup) and not _may_see(ctx, found):
        found = TopicAuthorization(HIDDEN)
    if isinstance(found, KafkaError):
        return DescribedGroup(
            error_code=found.code,
            error_message=found.explicit_message,
            group_id=group_id,
            group_state="",
            group_epoch=0,
            assignment_epoch=0,
            assignor_name="",
            members=(),
            authorized_operations=authorized_operations.UNKNOWN,
        )
    operations = authorized_operations.UNKNOWN
    if request.include_authorized_operations:
        operations = ctx.operations(ResourceType.GROUP, group_id)
    return DescribedGroup(
        error_code=ErrorCode.none,
        error_message=None,
        group_id=group_id,
        group_state=found.state,
        group_epoch=found.epoch,
        assignment_epoch=found.assignment_epoch,
        assignor_name=found.assignor,
        members=tuple(map(_member, found.members)),
        authorized_operations=operations,
    )


def _may_see(ctx: RequestContext, group: DescribedConsumerGroup) -> bool:
    """Whether the client may describe all topics that the group's members have, or are about to have."""
    if ctx.permissions is None:
        return True
    topics = {each.topic for member in group.members for each in (*member.assigned, *member.target)}
    return all(ctx.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, topic) for topic in topics)


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


def _assignment(topics: Sequence[TopicAssignment]) -> Assignment:
    return Assignment(
        topic_partitions=tuple(
            TopicPartitions(topic_id=topic.topic_id, topic_name=topic.topic, partitions=tuple(topic.partitions))
            for topic in topics
        )
    )


def error_response(
    ctx: RequestContext, request: ConsumerGroupDescribeRequest, error: KafkaError
) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(
        throttle_time=ZERO, groups=tuple(_group(ctx, request, group_id, error) for group_id in request.group_ids)
    )
