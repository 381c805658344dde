"""AssignReplicasToDirs 0 (KIP-858), decided by `controller.assign_replicas`."""

from __future__ import annotations

from kio.schema.assign_replicas_to_dirs.v0 import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse

from broker.request_context import RequestContext
from controller.assign_replicas import decide as decide_directories


async def assign_replicas_to_dirs(
    ctx: RequestContext, request: AssignReplicasToDirsRequest
) -> AssignReplicasToDirsResponse:
    controller = ctx.controller
    return await controller.submit(lambda image: decide_directories(image, request, controller.around.schema))
