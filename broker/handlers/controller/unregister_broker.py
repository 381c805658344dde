"""UnregisterBroker 0 (KIP-185, KIP-631), decided by `controller.registration`.

Deviation: the broker that runs with this controller cannot be unregistered; in Kafka it can.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode
from kio.schema.unregister_broker.v0 import UnregisterBrokerRequest, UnregisterBrokerResponse

from broker.handlers.controller.service import service_of
from broker.request_context import RequestContext
from protocol.durations import ZERO
from protocol.errors import InvalidRequest


async def handle(ctx: RequestContext, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
    if request.broker_id == ctx.local.node_id:
        raise InvalidRequest(f"Broker {request.broker_id} runs with the controller, and cannot leave its cluster.")
    await service_of(ctx).unregister(request.broker_id)
    return UnregisterBrokerResponse(throttle_time=ZERO, error_code=ErrorCode.none, error_message=None)
