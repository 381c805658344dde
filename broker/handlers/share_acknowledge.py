"""ShareAcknowledge 1 (KIP-932): refused, as Kafka does while `share.version` is 0."""

from __future__ import annotations

from typing import NoReturn

from kio.schema.share_acknowledge.v1 import ShareAcknowledgeRequest, ShareAcknowledgeResponse

from broker.network.context import RequestContext
from protocol.durations import ZERO
from protocol.errors import KafkaError, UnsupportedVersion


def handle(_ctx: RequestContext, _request: ShareAcknowledgeRequest) -> NoReturn:
    raise UnsupportedVersion


def error_response(
    _ctx: RequestContext, _request: ShareAcknowledgeRequest, error: KafkaError
) -> ShareAcknowledgeResponse:
    return ShareAcknowledgeResponse(
        throttle_time=ZERO,
        error_code=error.code,
        error_message=error.explicit_message,
        responses=(),
        node_endpoints=(),
    )
