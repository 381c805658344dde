"""ShareFetch 1 (KIP-932): refused, as Kafka does while `share.version` is 0."""

from __future__ import annotations

from typing import NoReturn

from kio.schema.share_fetch.v1 import ShareFetchRequest, ShareFetchResponse

from broker.network.context import RequestContext
from protocol.durations import ZERO
from protocol.errors import KafkaError, UnsupportedVersion


def handle(_ctx: RequestContext, _request: ShareFetchRequest) -> NoReturn:
    raise UnsupportedVersion


def error_response(_ctx: RequestContext, _request: ShareFetchRequest, error: KafkaError) -> ShareFetchResponse:
    return ShareFetchResponse(
        throttle_time=ZERO,
        error_code=error.code,
        error_message=error.explicit_message,
        acquisition_lock_timeout=ZERO,
        responses=(),
        node_endpoints=(),
    )
