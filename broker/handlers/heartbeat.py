"""Heartbeat 0-4 of classic groups (KIP-345; Kafka's `GroupCoordinatorService.heartbeat`)."""

from __future__ import annotations

from collections.abc import Awaitable

from kio.schema.errors import ErrorCode
from kio.schema.heartbeat.v4 import HeartbeatRequest, HeartbeatResponse

from broker.network.answers import when_done
from broker.request_context import RequestContext
from protocol.durations import ZERO
from protocol.errors import InvalidGroupId


def heartbeat(ctx: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse | Awaitable[HeartbeatResponse]:
    if not request.group_id:
        raise InvalidGroupId
    answer = ctx.coordinators.groups.write(request.group_id, lambda state: state.groups.heartbeat(request))
    return when_done(answer, _response)


def _response(code: ErrorCode) -> HeartbeatResponse:
    return _GO_ON if code is ErrorCode.none else HeartbeatResponse(throttle_time=ZERO, error_code=code)


_GO_ON = HeartbeatResponse(throttle_time=ZERO, error_code=ErrorCode.none)
