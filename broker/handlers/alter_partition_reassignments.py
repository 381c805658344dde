"""AlterPartitionReassignments 0-1 (KIP-455, KIP-860), decided by `controller.reassignments`."""

from __future__ import annotations

from kio.schema.alter_partition_reassignments.v1 import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)

from broker.request_context import RequestContext
from controller.reassignments import decide as decide_reassignment


async def alter_partition_reassignments(
    ctx: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    return await ctx.controller.submit(lambda image: decide_reassignment(image, request, ctx.controller.around.schema))
