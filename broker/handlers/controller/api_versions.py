"""ApiVersions 0-5 of a controller's listener: the APIs that are served there."""

from __future__ import annotations

from broker.handlers.api_versions import answer, too_new_version
from broker.network.handler import Handler
from broker.request_context import RequestContext
from protocol.api.table import CONTROLLER_TABLE
from protocol.newer.api_versions_v5 import ApiVersionsRequest, ApiVersionsResponse


def _api_versions(ctx: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    return answer(ctx, request, CONTROLLER_TABLE)


api_versions = Handler(_api_versions, too_new=too_new_version)
