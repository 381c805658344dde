"""BrokerRegistration 4 (KIP-631, KIP-858, KIP-966), decided by `controller.registration`."""

from __future__ import annotations

from kio.schema.broker_registration.v4 import BrokerRegistrationRequest, BrokerRegistrationResponse
from kio.schema.errors import ErrorCode

from broker.handlers.controller.service import service_of
from broker.request_context import RequestContext
from protocol.durations import ZERO


async def broker_registration(ctx: RequestContext, request: BrokerRegistrationRequest) -> BrokerRegistrationResponse:
    epoch = await service_of(ctx).register(request)
    return BrokerRegistrationResponse(throttle_time=ZERO, error_code=ErrorCode.none, broker_epoch=epoch)
