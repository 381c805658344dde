"""Consumer groups: ConsumerGroupHeartbeat 0-1 (KIP-848, KIP-1082), ConsumerGroupDescribe 0-1 (KIP-848).

Kafka's `GroupCoordinatorService.consumerGroupHeartbeat` and `consumerGroupDescribe`; `modern_groups.py` has their
course.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Awaitable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

from kio.schema.consumer_group_describe.v1 import ConsumerGroupDescribeResponse
from kio.schema.consumer_group_describe.v1.response import Assignment as DescribedAssignment
from kio.schema.consumer_group_describe.v1.response import DescribedGroup, Member
from kio.schema.consumer_group_describe.v1.response import TopicPartitions as DescribedTopicPartitions
from kio.schema.consumer_group_heartbeat.v1 import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kio.schema.consumer_group_heartbeat.v1.request import TopicPartitions as OwnedPartitions
from kio.schema.consumer_group_heartbeat.v1.response import Assignment, TopicPartitions

from broker.api.modern_groups import (
    described_assignment,
    descriptions,
    heartbeat_response,
    heartbeats,
    member_fields,
    require_topics,
    topics_of,
)
from broker.network.answers import Later
from broker.network.ports import Handler
from broker.request_context import RequestContext
from coordinator.group.consumer.group import NO_PARTITIONS, ConsumerGroup
from coordinator.group.consumer.heartbeat import (
    ConsumerHeartbeat,
    ConsumerHeartbeatAnswer,
    check_request,
)
from coordinator.group.consumer.heartbeat import consumer_group_heartbeat as operation
from coordinator.group.modern.groups import ModernGroups
from metadata.acls import AclOperation, ResourceType
from protocol.coordinator_records.record_schema import Partitions
from protocol.durations import MILLISECOND
from protocol.uuids import ZERO as NO_TOPIC

FIRST_VERSION_WITH_OWN_MEMBER_IDS = 1

OFFER = "group.version", "consumer"
respond = heartbeat_response(ConsumerGroupHeartbeatResponse, Assignment, TopicPartitions)


def _prepare(ctx: RequestContext, request: ConsumerGroupHeartbeatRequest) -> ConsumerHeartbeat:
    return ConsumerHeartbeat(
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


def _owned(topics: tuple[OwnedPartitions, ...]) -> Partitions:
    owned: dict[UUID, set[int]] = {}
    for topic in topics:
        owned.setdefault(topic.topic_id or NO_TOPIC, set()).update(topic.partitions)
    return {topic_id: frozenset(partitions) for topic_id, partitions in owned.items()}


def _authorized(ctx: RequestContext, heartbeat: ConsumerHeartbeat) -> ConsumerHeartbeat:
    """Check the topics that are named; an expression matches only topics that the client may describe."""
    require_topics(ctx, heartbeat.topics or ())
    return replace(heartbeat, may_describe=partial(ctx.allows, AclOperation.DESCRIBE, ResourceType.TOPIC))


ADAPTIVE_LINGER_MS = 5
"""In place of a time that follows the load: Kafka's until 4.1."""


def _answer(
    ctx: RequestContext, heartbeat: ConsumerHeartbeat, answer: Future[ConsumerHeartbeatAnswer]
) -> ConsumerGroupHeartbeatResponse | Awaitable[ConsumerGroupHeartbeatResponse]:
    if not answer.done():
        return Later(answer, respond)
    found = answer.result()
    if not heartbeat.tells_nothing:
        return _linger(ctx, found)
    if ctx.answered[0] != found:
        ctx.answered = found, respond(found)
    response: ConsumerGroupHeartbeatResponse = ctx.answered[1]
    return response


async def _linger(ctx: RequestContext, answer: ConsumerHeartbeatAnswer) -> ConsumerGroupHeartbeatResponse:
    """The answer to a member that joins or changes its subscription, after `group.coordinator.append.linger.ms`.

    Kafka gathers records for so long before it writes them, whatever they are. librdkafka relies on it here: a consumer
    that changes its subscription many times at once otherwise stops (2.15).
    """
    linger_ms = ctx.local.config.integer("group.coordinator.append.linger.ms")
    await ctx.local.clock.machine.sleep(ADAPTIVE_LINGER_MS if linger_ms < 0 else linger_ms)
    return respond(answer)


consumer_group_heartbeat = Handler(heartbeats(OFFER, _authorized, check_request, operation, _answer), prepare=_prepare)


CLASSIC_MEMBER = 0
CONSUMER_MEMBER = 1


def describe(_: Any, groups: ModernGroups, group: ConsumerGroup) -> tuple[dict[str, Any], Iterable[str]]:
    """Kafka's `ConsumerGroup.asDescribedGroup`: the members, and the assignor that most of them prefer.

    A member has what it is assigned, and what it is to give up and has not yet.
    """
    assignment = partial(described_assignment, groups.topics, DescribedAssignment, DescribedTopicPartitions)
    members = tuple(
        Member(
            **member_fields(member),
            instance_id=member.instance_id,
            subscribed_topic_names=tuple(sorted(member.topics)),
            subscribed_topic_regex=member.regex,
            assignment=assignment(member.assigned, member.pending_revocation),
            target_assignment=assignment(group.target.get(member.member_id, NO_PARTITIONS)),
            member_type=CLASSIC_MEMBER if member.is_classic else CONSUMER_MEMBER,
        )
        for member in group.members.values()
    )
    assignor = group.preferred_assignor(groups.consumer_config.assignors)
    parts = (part for member in members for part in (member.assignment, member.target_assignment))
    return {"members": members, "assignor_name": assignor}, topics_of(parts)


consumer_group_describe = descriptions(
    OFFER,
    ConsumerGroup,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    describe,
    {"assignor_name": ""},
)
