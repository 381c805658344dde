"""ApiVersions 0-5 (KIP-35, KIP-511, KIP-584, KIP-1022, KIP-1242).

A controller's listener answers with the APIs that are served there. SASL is spoken before a client is known: here it is
out of place, and always refused (KIP-43, KIP-152).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Any, NoReturn

from kio.schema.api_versions.v4.response import ApiVersion, FinalizedFeatureKey, SupportedFeatureKey
from kio.schema.errors import ErrorCode

from broker.network.ports import Handler
from broker.request_context import RequestContext
from controller.features import SUPPORTED
from protocol.api.row import API_VERSIONS_KEY, Api
from protocol.api.table import API_TABLE, CONTROLLER_TABLE, OWN_TABLE
from protocol.durations import ZERO
from protocol.errors import IllegalSaslState
from protocol.newer.api_versions import NO_NODE, ApiVersionsRequest, ApiVersionsResponse

FIRST_VERSION_WITH_SOFTWARE = 3
FIRST_VERSION_WITH_FEATURES_FROM_ZERO = 4
OWN_SOFTWARE = "odradek"
"""What our own command line calls itself: it alone is told of the APIs that Kafka has not."""
SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def _api_versions(ctx: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    is_own = request.client_software_name == OWN_SOFTWARE
    return answer(ctx, request, (*API_TABLE, *OWN_TABLE) if is_own else API_TABLE)


def answer(ctx: RequestContext, request: ApiVersionsRequest, apis: Iterable[Api]) -> ApiVersionsResponse:
    """The answer of a listener that serves these APIs."""
    ctx.connection.client_id = ctx.client_id
    if ctx.version >= FIRST_VERSION_WITH_SOFTWARE:
        software = (request.client_software_name, request.client_software_version)
        if not all(SOFTWARE.fullmatch(text) for text in software):
            return _response(ErrorCode.invalid_request, ())
        ctx.connection.client_software = software
    if request.cluster_id is not None or request.node_id != NO_NODE:
        if request.cluster_id is None or request.node_id == NO_NODE:
            return _response(ErrorCode.invalid_request, ())
        if (request.cluster_id, request.node_id) != (ctx.cluster.id, ctx.local.node_id):
            return _response(ErrorCode.rebootstrap_required, ())
    image = ctx.image
    lowest_shown = 0 if ctx.version >= FIRST_VERSION_WITH_FEATURES_FROM_ZERO else 1
    return ApiVersionsResponse(
        error_code=ErrorCode.none,
        api_keys=tuple(_served(api) for api in apis if api.advertised or ctx.local.client_telemetry.is_wanted),
        throttle_time=ZERO,
        supported_features=tuple(
            SupportedFeatureKey(name=name, min_version=lowest, max_version=highest)
            for name, (lowest, highest) in SUPPORTED.items()
            if lowest >= lowest_shown
        ),
        finalized_features_epoch=image.offset,
        finalized_features=tuple(
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in ctx.cluster.cache.finalized_features(image).items()
        ),
    )


def too_new_version() -> ApiVersionsResponse:
    """The answer, in version 0, to a version that is too new: the served versions of this API (KIP-511)."""
    return _response(
        ErrorCode.unsupported_version, tuple(_served(api) for api in API_TABLE if api.key == API_VERSIONS_KEY)
    )


def _response(error_code: ErrorCode, api_keys: tuple[ApiVersion, ...]) -> ApiVersionsResponse:
    return ApiVersionsResponse(error_code=error_code, api_keys=api_keys, throttle_time=ZERO)


@cache
def _served(api: Api) -> ApiVersion:
    return ApiVersion(api_key=api.key, min_version=api.advertised_lowest, max_version=api.highest)


api_versions = Handler(_api_versions, too_new=too_new_version)


def _of_controller(ctx: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    return answer(ctx, request, CONTROLLER_TABLE)


api_versions_of_controller = Handler(_of_controller, too_new=too_new_version)


def sasl_handshake(_ctx: RequestContext, _request: Any) -> NoReturn:
    raise IllegalSaslState


def sasl_authenticate(_ctx: RequestContext, _request: Any) -> NoReturn:
    raise IllegalSaslState("This listener asks for no authentication.")
