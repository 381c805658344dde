"""AllocateProducerIds 0 (KIP-730): a block of producer ids for a broker, decided by `controller.producer_ids`."""

from __future__ import annotations

from kio.schema.allocate_producer_ids.v0 import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from kio.schema.errors import ErrorCode

from broker.request_context import RequestContext
from controller.producer_ids import decide_for_broker
from protocol.durations import ZERO


async def allocate_producer_ids(
    ctx: RequestContext, request: AllocateProducerIdsRequest
) -> AllocateProducerIdsResponse:
    ids = await ctx.controller.submit(lambda image: decide_for_broker(image, request.broker_id, request.broker_epoch))
    return AllocateProducerIdsResponse(
        throttle_time=ZERO, error_code=ErrorCode.none, producer_id_start=ids.start, producer_id_len=len(ids)
    )
