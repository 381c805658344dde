"""AlterConfigs as a controller decides on it: the broker that was asked has checked its own part."""

from __future__ import annotations

from kio.schema.alter_configs.v2 import AlterConfigsRequest, AlterConfigsResponse

from broker.handlers.alter_configs import decided, respond, wanted
from broker.request_context import RequestContext


async def alter_configs(ctx: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
    changes = dict(enumerate(wanted(request)))
    response: AlterConfigsResponse = await decided(ctx, request, changes, respond)
    return response
