"""CreatePartitions 0-3 (KIP-195), decided by `controller.create_partitions`.

Deviation: of a topic that exceeds the most partitions of a request, Kafka still creates as many as fit.
"""

from __future__ import annotations

from kio.schema.create_partitions.v3 import CreatePartitionsRequest, CreatePartitionsResponse

from broker.request_context import RequestContext
from controller.create_partitions import decide as decide_partitions

FIRST_VERSION_THAT_KNOWS_QUOTAS = 3


async def create_partitions(ctx: RequestContext, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    quota = ctx.local.throttling.mutations(ctx, strict=ctx.version >= FIRST_VERSION_THAT_KNOWS_QUOTAS)
    return await ctx.controller.submit(lambda image: decide_partitions(image, request, quota))
