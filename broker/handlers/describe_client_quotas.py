"""DescribeClientQuotas 0-1 (KIP-546; Kafka's `ClientQuotasImage`). No quota can be set, so none matches a filter."""

from __future__ import annotations

from collections.abc import Sequence

from kio.schema.describe_client_quotas.v1 import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from kio.schema.describe_client_quotas.v1.request import ComponentData
from kio.schema.errors import ErrorCode

from broker.context import RequestContext
from broker.error_responses import ZERO
from protocol.errors import InvalidRequest, KafkaError, UnsupportedVersion

IP, USER, CLIENT_ID = "ip", "user", "client-id"
EXACT, DEFAULT, SPECIFIED = 0, 1, 2


def handle(_ctx: RequestContext, request: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
    _check(request.components)
    return DescribeClientQuotasResponse(throttle_time=ZERO, error_code=ErrorCode.none, error_message="", entries=())


def _check(components: Sequence[ComponentData]) -> None:
    """:raises InvalidRequest, UnsupportedVersion: The first thing that is wrong with the filter."""
    seen: set[str] = set()
    for component in components:
        kind = component.entity_type
        if not kind:
            raise InvalidRequest("Invalid empty entity type.")
        if kind in seen:
            raise InvalidRequest(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in (IP, USER, CLIENT_ID):
            raise UnsupportedVersion(f"Unsupported entity type {kind}")
        _check_match(component.match_type, component.match)
        seen.add(kind)
    if IP in seen and len(seen) > 1:
        raise InvalidRequest(
            "Invalid entity filter component combination. IP filter component should not be used with user or "
            "clientId filter component."
        )


def _check_match(match_type: int, match: str | None) -> None:
    if match_type == EXACT:
        if match is None:
            raise InvalidRequest("Request specified MATCH_TYPE_EXACT, but set match string to null.")
    elif match_type == DEFAULT:
        if match is not None:
            raise InvalidRequest("Request specified MATCH_TYPE_DEFAULT, but also specified a match string.")
    elif match_type == SPECIFIED:
        if match is not None:
            raise InvalidRequest("Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.")
    else:
        raise InvalidRequest(f"Unknown match type {match_type}")


def error_response(
    _ctx: RequestContext, _request: DescribeClientQuotasRequest, error: KafkaError
) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(
        throttle_time=ZERO, error_code=error.code, error_message=error.message, entries=None
    )
