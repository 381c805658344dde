"""AlterPartition 3 (KIP-497, KIP-841, KIP-903), decided by `controller.alter_partition`."""

from __future__ import annotations

from kio.schema.alter_partition.v3 import AlterPartitionRequest, AlterPartitionResponse

from broker.request_context import RequestContext
from controller.alter_partition import decide as decide_partition


async def alter_partition(ctx: RequestContext, request: AlterPartitionRequest) -> AlterPartitionResponse:
    controller = ctx.controller
    return await controller.submit(lambda image: decide_partition(image, request, controller.around.schema))
