"""ElectLeaders 0-2 (KIP-183, KIP-460), decided by `controller.elections`."""

from __future__ import annotations

from kio.schema.elect_leaders.v2 import ElectLeadersRequest, ElectLeadersResponse

from broker.request_context import RequestContext
from controller.elections import Elections


async def elect_leaders(ctx: RequestContext, request: ElectLeadersRequest) -> ElectLeadersResponse:
    controller = ctx.controller
    elections = Elections(request, controller.around)
    while await controller.submit(elections.step):
        pass
    return elections.response
