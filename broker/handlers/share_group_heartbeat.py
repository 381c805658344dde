"""ShareGroupHeartbeat 1 (KIP-932; Kafka's `GroupCoordinatorService.shareGroupHeartbeat`)."""

from __future__ import annotations

from collections.abc import Awaitable

from kio.schema.errors import ErrorCode
from kio.schema.share_group_heartbeat.v1 import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from kio.schema.share_group_heartbeat.v1.response import Assignment as HeartbeatAssignment
from kio.schema.share_group_heartbeat.v1.response import TopicPartitions as HeartbeatTopicPartitions

from broker.handlers.share_requests import require_share_groups
from broker.network.answers import when_done
from broker.request_context import RequestContext
from coordinator.group.share.heartbeat import check_request
from coordinator.group.share.messages import ShareHeartbeat, ShareHeartbeatAnswer
from metadata.acls import AclOperation, ResourceType
from protocol.coordinator_records.consumer_group_values import Partitions
from protocol.durations import MILLISECOND, ZERO
from protocol.errors import TopicAuthorization

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
    answer = ctx.coordinators.groups.write(heartbeat.group_id, lambda state: state.groups.share_heartbeat(heartbeat))
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
