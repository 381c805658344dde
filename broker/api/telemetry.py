"""Metrics that clients push.

GetTelemetrySubscriptions 0 (KIP-714). Answered, and advertised where there is a subscription.

PushTelemetry 0 (KIP-714).
"""

from __future__ import annotations

import datetime

from kio.schema.errors import ErrorCode
from kio.schema.get_telemetry_subscriptions.v0 import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from kio.schema.push_telemetry.v0 import PushTelemetryRequest, PushTelemetryResponse

from broker.request_context import RequestContext
from protocol import uuids
from protocol.durations import ZERO
from protocol.records.compression import Compression

ACCEPTED = (Compression.ZSTD, Compression.LZ4, Compression.GZIP, Compression.SNAPPY)


def get_telemetry_subscriptions(
    ctx: RequestContext, request: GetTelemetrySubscriptionsRequest
) -> GetTelemetrySubscriptionsResponse:
    telemetry = ctx.local.client_telemetry
    instance_id = request.client_instance_id or uuids.random_uuid(ctx.local.random)
    instance = telemetry.subscription(ctx, instance_id)
    return GetTelemetrySubscriptionsResponse(
        throttle_time=ZERO,
        error_code=ErrorCode.none,
        client_instance_id=instance_id,
        subscription_id=instance.subscription_id,
        accepted_compression_types=tuple(map(int, ACCEPTED)),
        push_interval=datetime.timedelta(milliseconds=instance.interval_ms),
        telemetry_max_bytes=telemetry.max_bytes,
        delta_temporality=True,
        requested_metrics=instance.metrics,
    )


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
