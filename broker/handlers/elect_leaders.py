"""ElectLeaders 0-2 (KIP-183, KIP-460), decided by `controller.elections`."""

from __future__ import annotations

from kio.schema.elect_leaders.v2 import ElectLeadersRequest, ElectLeadersResponse

from broker.cluster.controller_port import decided_elsewhere
from broker.request_context import RequestContext
from controller.elections import Elections


async def handle(ctx: RequestContext, request: ElectLeadersRequest) -> ElectLeadersResponse:
    controller = ctx.controller
    if controller.is_elsewhere:
        return await controller.submit(decided_elsewhere, ctx)
    elections = Elections(request, controller.around)
    while await controller.submit(elections.step):
        pass
    return elections.response
