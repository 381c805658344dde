"""UnregisterBroker 0 (KIP-185, KIP-631), decided by the cluster's controller.

Deviation: a broker that runs with the controller cannot be unregistered; in Kafka it can.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode
from kio.schema.unregister_broker.v0 import UnregisterBrokerRequest, UnregisterBrokerResponse

from broker.request_context import RequestContext
from protocol.durations import ZERO
from protocol.errors import BrokerIdNotRegistered, InvalidRequest


async def unregister_broker(ctx: RequestContext, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
    """Raises InvalidRequest, BrokerIdNotRegistered."""
    broker_id = request.broker_id
    if broker_id == ctx.local.node_id:
        raise InvalidRequest(f"Broker {broker_id} runs with the controller, and cannot leave its cluster.")
    service = ctx.cluster.controller_service
    if service is None:
        raise BrokerIdNotRegistered("No broker of that id is registered.")
    await service.unregister(broker_id)
    return UnregisterBrokerResponse(throttle_time=ZERO, error_code=ErrorCode.none, error_message=None)
