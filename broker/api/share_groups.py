"""Share groups: ShareGroupHeartbeat 1, ShareGroupDescribe 1 (KIP-932; Kafka's `GroupCoordinatorService`)."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Awaitable, Iterable
from functools import partial
from typing import Any

from kio.schema.share_group_describe.v1 import ShareGroupDescribeResponse
from kio.schema.share_group_describe.v1.response import Assignment as DescribedAssignment
from kio.schema.share_group_describe.v1.response import DescribedGroup, Member
from kio.schema.share_group_describe.v1.response import TopicPartitions as DescribedTopicPartitions
from kio.schema.share_group_heartbeat.v1 import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from kio.schema.share_group_heartbeat.v1.response import Assignment, TopicPartitions

from broker.api.modern_groups import (
    described_assignment,
    descriptions,
    heartbeat_response,
    heartbeats,
    member_fields,
    require_topics,
    topics_of,
)
from broker.network.answers import when_done
from broker.network.ports import Handler
from broker.request_context import RequestContext
from coordinator.group.modern.groups import ModernGroups
from coordinator.group.share.group import ShareGroup
from coordinator.group.share.heartbeat import ShareHeartbeat, ShareHeartbeatAnswer, check_request
from coordinator.group.share.heartbeat import share_group_heartbeat as operation

OFFER = ("share.version",)
ASSIGNOR = "simple"

respond = heartbeat_response(ShareGroupHeartbeatResponse, Assignment, TopicPartitions)


def _prepare(ctx: RequestContext, request: ShareGroupHeartbeatRequest) -> ShareHeartbeat:
    return ShareHeartbeat(
        request.group_id,
        request.member_id,
        request.member_epoch,
        request.rack_id,
        request.subscribed_topic_names,
        ctx.client_id or "",
        f"/{ctx.connection.client_address}",
    )


def _authorized(ctx: RequestContext, heartbeat: ShareHeartbeat) -> ShareHeartbeat:
    require_topics(ctx, heartbeat.topics or ())
    return heartbeat


def _answer(
    _ctx: RequestContext, _heartbeat: ShareHeartbeat, answer: Future[ShareHeartbeatAnswer]
) -> ShareGroupHeartbeatResponse | Awaitable[ShareGroupHeartbeatResponse]:
    return when_done(answer, respond)


share_group_heartbeat = Handler(heartbeats(OFFER, _authorized, check_request, operation, _answer), prepare=_prepare)


def _describe(_: Any, groups: ModernGroups, group: ShareGroup) -> tuple[dict[str, Any], Iterable[str]]:
    assignment = partial(described_assignment, groups.topics, DescribedAssignment, DescribedTopicPartitions)
    members = tuple(
        Member(**member_fields(member), subscribed_topic_names=member.topics, assignment=assignment(member.assigned))
        for member in group.members.values()
    )
    return {"members": members, "assignor_name": ASSIGNOR}, topics_of(member.assignment for member in members)


share_group_describe = descriptions(
    OFFER, ShareGroup, ShareGroupDescribeResponse, DescribedGroup, _describe, {"assignor_name": ""}
)
