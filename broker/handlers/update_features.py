"""UpdateFeatures 0-2 (KIP-584, KIP-1022), decided by `controller.features`; versions 0 and 1 answer each by name.

Deviation: only the levels of `group.version` and `transaction.version` change this broker's behaviour.
"""

from __future__ import annotations

from collections.abc import Sequence

from kio.schema.errors import ErrorCode
from kio.schema.update_features.v1.response import UpdatableFeatureResult
from kio.schema.update_features.v1.response import UpdateFeaturesResponse as ResponseWithResults
from kio.schema.update_features.v2 import UpdateFeaturesRequest, UpdateFeaturesResponse

from broker.request_context import RequestContext
from controller.features import FeatureUpdate, decide
from protocol.durations import ZERO
from protocol.errors import KafkaError, UnknownServerError

LAST_VERSION_WITH_RESULTS = 1


async def handle(ctx: RequestContext, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse | ResponseWithResults:
    updates = [
        FeatureUpdate(each.feature, each.max_version_level, each.upgrade_type) for each in request.feature_updates
    ]
    controller, validate_only = ctx.controller, request.validate_only
    return await controller.submit(
        lambda image: decide(image, updates, controller.around.schema, validate_only=validate_only).map(
            lambda _: _done(ctx, updates)
        ),
        ctx,
    )


def _done(ctx: RequestContext, updates: Sequence[FeatureUpdate]) -> UpdateFeaturesResponse | ResponseWithResults:
    if ctx.version > LAST_VERSION_WITH_RESULTS:
        return UpdateFeaturesResponse(throttle_time=ZERO, error_code=ErrorCode.none, error_message=None)
    return ResponseWithResults(
        throttle_time=ZERO,
        error_code=ErrorCode.none,
        error_message=None,
        results=tuple(
            UpdatableFeatureResult(feature=each.name, error_code=ErrorCode.none, error_message="NONE")
            for each in updates
        ),
    )


def error_response(_ctx: RequestContext, _request: UpdateFeaturesRequest, error: KafkaError) -> UpdateFeaturesResponse:
    message = None if isinstance(error, UnknownServerError) else error.message
    return UpdateFeaturesResponse(throttle_time=ZERO, error_code=error.code, error_message=message)
