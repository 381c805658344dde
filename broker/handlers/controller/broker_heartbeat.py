"""BrokerHeartbeat 0-2 (KIP-631, KIP-841, KIP-858, KIP-1066), decided by `controller.heartbeats`."""

from __future__ import annotations

from kio.schema.broker_heartbeat.v2 import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kio.schema.errors import ErrorCode

from broker.handlers.controller.service import service_of
from broker.request_context import RequestContext
from protocol.durations import ZERO


async def broker_heartbeat(ctx: RequestContext, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
    reply = await service_of(ctx).heartbeat(request)
    return BrokerHeartbeatResponse(
        throttle_time=ZERO,
        error_code=ErrorCode.none,
        is_caught_up=reply.is_caught_up,
        is_fenced=reply.is_fenced,
        should_shut_down=reply.should_shut_down,
    )
