"""InitProducerId 0-5 (KIP-98, KIP-360) for idempotent producers; transactional ids have no coordinator yet.

Deviation: Kafka answers COORDINATOR_LOAD_IN_PROGRESS while it fetches its first block of ids; here the answer waits.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v5 import InitProducerIdRequest, InitProducerIdResponse

from broker.context import RequestContext
from broker.error_responses import ZERO
from protocol.errors import CoordinatorNotAvailable, InvalidRequest

NONE = -1


async def handle(ctx: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
    if (request.producer_id == NONE) != (request.producer_epoch == NONE):
        raise InvalidRequest
    if request.transactional_id == "":
        raise InvalidRequest
    if request.transactional_id is not None:
        raise CoordinatorNotAvailable
    return InitProducerIdResponse(
        throttle_time=ZERO,
        error_code=ErrorCode.none,
        producer_id=await ctx.node.producer_ids.next(),
        producer_epoch=0,
    )
