"""PushTelemetry 0 (KIP-714)."""

from __future__ import annotations

from kio.schema.errors import ErrorCode
from kio.schema.push_telemetry.v0 import PushTelemetryRequest, PushTelemetryResponse

from broker.request_context import RequestContext
from protocol.durations import ZERO


async def push_telemetry(ctx: RequestContext, request: PushTelemetryRequest) -> PushTelemetryResponse:
    await ctx.local.client_telemetry.push(
        ctx,
        request.client_instance_id,
        request.subscription_id,
        terminating=request.terminating,
        compression=request.compression_type,
        metrics=request.metrics,
    )
    return PushTelemetryResponse(throttle_time=ZERO, error_code=ErrorCode.none)
