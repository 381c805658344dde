"""ApiVersions 0-5 of a controller's listener: the APIs that are served there."""

from __future__ import annotations

from broker.handlers.api_versions import answer, unsupported_version
from broker.request_context import RequestContext
from protocol.api.table import CONTROLLER_TABLE
from protocol.newer.api_versions_v5 import ApiVersionsRequest, ApiVersionsResponse

__all__ = ["handle", "unsupported_version"]


def handle(ctx: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    return answer(ctx, request, CONTROLLER_TABLE)
