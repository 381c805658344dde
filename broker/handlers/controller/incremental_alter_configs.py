"""IncrementalAlterConfigs as a controller decides on it: the broker that was asked has checked its own part."""

from __future__ import annotations

from kio.schema.incremental_alter_configs.v1 import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse

from broker.handlers.alter_configs import decided
from broker.handlers.incremental_alter_configs import respond, wanted
from broker.request_context import RequestContext


async def incremental_alter_configs(
    ctx: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    changes = dict(enumerate(wanted(request)))
    response: IncrementalAlterConfigsResponse = await decided(ctx, request, changes, respond)
    return response
