"""The controller's service of this node, which every handler of the controller's listener uses."""

from __future__ import annotations

from broker.membership.controller_service import ControllerService
from broker.request_context import RequestContext


def service_of(ctx: RequestContext) -> ControllerService:
    service = ctx.cluster.controller_service
    assert service is not None, "a node without it has no controller's listener"
    return service
