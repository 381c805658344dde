"""Heartbeat 0-4 of classic groups (KIP-345; Kafka's `GroupCoordinatorService.heartbeat`)."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import cache

from kio.schema.errors import ErrorCode
from kio.schema.heartbeat.v4 import HeartbeatRequest, HeartbeatResponse

from broker.answers import when_done
from broker.context import RequestContext
from broker.error_responses import ZERO
from coordinator.group import messages
from protocol.errors import CoordinatorLoadInProgress, InvalidGroupId, KafkaError


def handle(ctx: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse | Awaitable[HeartbeatResponse]:
    if not request.group_id:
        raise InvalidGroupId
    heartbeat = messages.HeartbeatRequest(
        request.group_id, request.member_id, request.group_instance_id, request.generation_id
    )
    return when_done(
        ctx.node.group_coordinator.write(request.group_id, lambda state: state.groups.heartbeat(heartbeat)), _response
    )


@cache
def _response(code: ErrorCode) -> HeartbeatResponse:
    return HeartbeatResponse(throttle_time=ZERO, error_code=code)


def error_response(ctx: RequestContext, request: HeartbeatRequest, error: KafkaError) -> HeartbeatResponse:
    """While the coordinator loads, a heartbeat is believed unseen, so that nobody rejoins for nothing."""
    return _response(ErrorCode.none if isinstance(error, CoordinatorLoadInProgress) else error.code)
