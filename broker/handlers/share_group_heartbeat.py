"""ShareGroupHeartbeat 1 (KIP-932): refused, as Kafka does while `share.version` is 0."""

from __future__ import annotations

from typing import NoReturn

from kio.schema.share_group_heartbeat.v1 import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

from broker.network.context import RequestContext
from protocol.durations import ZERO
from protocol.errors import KafkaError, UnsupportedVersion


def handle(_ctx: RequestContext, _request: ShareGroupHeartbeatRequest) -> NoReturn:
    raise UnsupportedVersion


def error_response(
    _ctx: RequestContext, _request: ShareGroupHeartbeatRequest, error: KafkaError
) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(
        throttle_time=ZERO,
        error_code=error.code,
        error_message=error.explicit_message,
        member_id=None,
        member_epoch=0,
        heartbeat_interval=ZERO,
        assignment=None,
    )
