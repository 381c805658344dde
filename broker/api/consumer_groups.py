"""Consumer groups: ConsumerGroupHeartbeat 0-1 (KIP-848, KIP-1082), ConsumerGroupDescribe 0-1 (KIP-848).

Kafka's `GroupCoordinatorService.consumerGroupHeartbeat` and `consumerGroupDescribe`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from uuid import UUID

from kio.schema.consumer_group_describe.v1 import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from kio.schema.consumer_group_describe.v1.response import Assignment as DescribedAssignment
from kio.schema.consumer_group_describe.v1.response import DescribedGroup, Member
from kio.schema.consumer_group_describe.v1.response import TopicPartitions as DescribedTopicPartitions
from kio.schema.consumer_group_heartbeat.v1 import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kio.schema.consumer_group_heartbeat.v1.request import TopicPartitions as OwnedPartitions
from kio.schema.consumer_group_heartbeat.v1.response import Assignment as HeartbeatAssignment
from kio.schema.consumer_group_heartbeat.v1.response import TopicPartitions as HeartbeatTopicPartitions
from kio.schema.errors import ErrorCode

from broker.api.group_admin import describe_each, failed_group, operations_on, require_visible
from broker.network.answers import when_done
from broker.network.ports import Handler
from broker.request_context import RequestContext
from coordinator.group.consumer.group import NO_PARTITIONS, ConsumerGroup
from coordinator.group.consumer.heartbeat import ConsumerHeartbeat, ConsumerHeartbeatAnswer, check_request
from coordinator.group.consumer.heartbeat import consumer_group_heartbeat as handle_heartbeat
from coordinator.group.group_coordinator_shard import GroupCoordinatorShard
from coordinator.group.modern.groups import ModernGroups
from coordinator.group.modern.topics import TopicsPort
from metadata.acls import AclOperation, ResourceType
from protocol.coordinator_records.record_schema import Partitions
from protocol.durations import MILLISECOND, ZERO
from protocol.errors import KafkaError, TopicAuthorization
from protocol.schema import maker
from protocol.uuids import ZERO as NO_TOPIC

FIRST_VERSION_WITH_OWN_MEMBER_IDS = 1

Answer = ConsumerGroupHeartbeatResponse

new_response = maker(ConsumerGroupHeartbeatResponse)


NOT_YET = ConsumerHeartbeatAnswer("", 0)


@dataclass(slots=True)
class Prepared:
    """A heartbeat, with its last answer: a member that repeats it mostly gets the same response."""

    heartbeat: ConsumerHeartbeat
    answer: ConsumerHeartbeatAnswer = NOT_YET
    response: Answer | None = None

    def response_to(self, answer: ConsumerHeartbeatAnswer) -> Answer:
        if self.response is None or self.answer != answer:
            self.answer, self.response = answer, _response(answer)
        return self.response


def _prepare(ctx: RequestContext, request: ConsumerGroupHeartbeatRequest) -> Prepared:
    heartbeat = ConsumerHeartbeat(
        request.group_id,
        request.member_id,
        request.member_epoch,
        request.instance_id,
        request.rack_id,
        request.rebalance_timeout // MILLISECOND,
        request.subscribed_topic_names,
        request.subscribed_topic_regex,
        request.server_assignor,
        None if request.topic_partitions is None else _owned(request.topic_partitions),
        ctx.client_id or "",
        f"/{ctx.connection.client_address}",
        names_itself=ctx.version >= FIRST_VERSION_WITH_OWN_MEMBER_IDS,
    )
    return Prepared(heartbeat)


ADAPTIVE_LINGER_MS = 5
"""In place of a time that follows the load: Kafka's until 4.1."""


def _consumer_group_heartbeat(ctx: RequestContext, prepared: Prepared) -> Answer | Awaitable[Answer]:
    coordinator = ctx.coordinators.groups
    coordinator.require_consumer_protocol(ctx.cluster.cache.image)
    heartbeat = prepared.heartbeat
    if ctx.permissions is not None:
        _require_rights(ctx, heartbeat.topics or ())
        heartbeat = replace(heartbeat, may_describe=partial(ctx.allows, AclOperation.DESCRIBE, ResourceType.TOPIC))
    check_request(heartbeat, coordinator.consumer_config)
    answer = coordinator.write(heartbeat.group_id, lambda state: handle_heartbeat(state.groups.modern, heartbeat))
    if not heartbeat.tells_nothing and answer.done():
        return _linger(ctx, answer.result())
    return when_done(answer, prepared.response_to)


def _require_rights(ctx: RequestContext, topics: Iterable[str]) -> None:
    """Raises TopicAuthorization unless the client may describe each topic that it subscribes to by name."""
    for topic in topics:
        if not ctx.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, topic):
            raise TopicAuthorization


async def _linger(ctx: RequestContext, answer: ConsumerHeartbeatAnswer) -> Answer:
    """The answer to a member that joins or changes its subscription, after `group.coordinator.append.linger.ms`.

    Kafka gathers records for so long before it writes them, whatever they are. librdkafka relies on it here: a consumer
    that changes its subscription many times at once otherwise stops (2.15).
    """
    linger_ms = ctx.local.config.integer("group.coordinator.append.linger.ms")
    await ctx.local.clock.machine.sleep(ADAPTIVE_LINGER_MS if linger_ms < 0 else linger_ms)
    return _response(answer)


def _owned(topics: tuple[OwnedPartitions, ...]) -> Partitions:
    owned: dict[UUID, set[int]] = {}
    for topic in topics:
        owned.setdefault(topic.topic_id or NO_TOPIC, set()).update(topic.partitions)
    return {topic_id: frozenset(partitions) for topic_id, partitions in owned.items()}


def _response(answer: ConsumerHeartbeatAnswer) -> Answer:
    return new_response(
        throttle_time=ZERO,
        error_code=ErrorCode.none,
        error_message=None,
        member_id=answer.member_id,
        member_epoch=answer.member_epoch,
        heartbeat_interval=answer.heartbeat_interval_ms * MILLISECOND,
        assignment=None if answer.assigned is None else _heartbeat_assignment(answer.assigned),
    )


def _heartbeat_assignment(partitions: Partitions) -> HeartbeatAssignment:
    return HeartbeatAssignment(
        topic_partitions=tuple(
            HeartbeatTopicPartitions(topic_id=topic, partitions=tuple(sorted(indexes)))
            for topic, indexes in partitions.items()
        )
    )


consumer_group_heartbeat = Handler(_consumer_group_heartbeat, prepare=_prepare)


CLASSIC_MEMBER = 0
CONSUMER_MEMBER = 1


def consumer_group_describe(
    ctx: RequestContext, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse | Awaitable[ConsumerGroupDescribeResponse]:
    ctx.coordinators.groups.require_consumer_protocol(ctx.image)

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
                assignment=_described_assignment(groups.topics, member.assigned, member.pending_revocation),
                target_assignment=_described_assignment(
                    groups.topics, group.target.get(member.member_id, NO_PARTITIONS)
                ),
                member_type=CLASSIC_MEMBER if member.is_classic else CONSUMER_MEMBER,
            )
            for member in members
        ),
        authorized_operations=operations,
    )


def _described_assignment(topics: TopicsPort, *parts: Partitions) -> DescribedAssignment:
    """The partitions by their topics' names, without topics that no longer exist.

    A member has what it is assigned, and what it is to give up and has not yet.
    """
    images = [image for image in map(topics.by_id, dict.fromkeys(chain(*parts))) if image is not None]
    return DescribedAssignment(
        topic_partitions=tuple(
            DescribedTopicPartitions(
                topic_id=image.id,
                topic_name=image.name,
                partitions=tuple(sorted(frozenset[int]().union(*(part.get(image.id, ()) for part in parts)))),
            )
            for image in sorted(images, key=lambda image: image.name)
        )
    )


def _failed(group_id: str, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(**failed_group(group_id, error), assignor_name="")
