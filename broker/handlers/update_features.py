"""UpdateFeatures 0-2 (KIP-584, KIP-1022), decided by `controller.features`; versions 0 and 1 answer each by name.

Deviation: only the levels of `group.version` and `transaction.version` change this broker's behaviour.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from kio.schema.errors import ErrorCode
from kio.schema.update_features.v1.response import UpdatableFeatureResult
from kio.schema.update_features.v1.response import UpdateFeaturesResponse as ResponseWithResults
from kio.schema.update_features.v2 import UpdateFeaturesRequest, UpdateFeaturesResponse

from broker.request_context import RequestContext
from controller.decision import Decision
from controller.features import FeatureUpdate
from controller.features import decide as decide_features
from controller.quorum.metadata_log import MetadataLog
from metadata.image import MetadataImage
from protocol.durations import ZERO
from protocol.errors import InvalidUpdateVersion
from protocol.metadata.brokers import Endpoint
from protocol.metadata.control import VoterEndpoint

LAST_VERSION_WITH_RESULTS = 1


async def update_features(
    ctx: RequestContext, request: UpdateFeaturesRequest
) -> UpdateFeaturesResponse | ResponseWithResults:
    updates = [
        FeatureUpdate(each.feature, each.max_version_level, each.upgrade_type) for each in request.feature_updates
    ]
    schema, validate_only = ctx.controller.around.schema, request.validate_only
    raised: asyncio.Future[None] | None = None

    def decision(image: MetadataImage) -> Decision[UpdateFeaturesResponse | ResponseWithResults]:
        nonlocal raised
        kraft_version = ctx.cluster.cache.kraft_version()
        found = decide_features(image, updates, schema, kraft_version=kraft_version, validate_only=validate_only)
        if found.response:  # appended before the other features, in the same turn of the loop
            log, voter = _voter(ctx)
            raised = log.become_dynamic(VoterEndpoint(name=voter.name, host=voter.host, port=voter.port))
        return found.map(lambda _: _done(ctx, updates))

    response = await ctx.controller.submit(decision)
    if raised is not None:
        await asyncio.shield(raised)  # others may wait for it too
    return response


def _voter(ctx: RequestContext) -> tuple[MetadataLog, Endpoint]:
    """The metadata log, and where its controller is reached. Raises InvalidUpdateVersion if it is not."""
    service = ctx.cluster.controller_service
    if service is None or service.endpoint is None:
        raise InvalidUpdateVersion(
            "No feature was changed: kraft.version 1 needs a listener that controller.listener.names has, "
            "where the voter is reached."
        )
    return service.log, service.endpoint


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
