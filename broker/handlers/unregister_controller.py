"""UnregisterController 0 (KIP-1312), decided by `controller.unregister_controller`."""

from __future__ import annotations

from collections.abc import Awaitable

from kio.schema.errors import ErrorCode

from broker.request_context import RequestContext
from controller.unregister_controller import decide as decide_unregistration
from protocol.durations import ZERO
from protocol.newer.unregister_controller_v0 import UnregisterControllerRequest, UnregisterControllerResponse

CONTROLLER_ID_NOT_REGISTERED = 136
"""Kafka 4.4's newest error, which `ErrorCode` does not have yet."""


def unregister_controller(
    ctx: RequestContext, request: UnregisterControllerRequest
) -> Awaitable[UnregisterControllerResponse]:
    """Raises InvalidRequest, UnsupportedVersion."""

    def answer(was_registered: bool) -> UnregisterControllerResponse:
        if was_registered:
            return _response(ErrorCode.none, "")
        message = f"Controller ID {request.controller_id} is not currently registered."
        return _response(CONTROLLER_ID_NOT_REGISTERED, message)

    return ctx.controller.submit(
        lambda image: decide_unregistration(image, request.controller_id, ctx.local.node_id).map(answer)
    )


def _response(error_code: int, message: str) -> UnregisterControllerResponse:
    return UnregisterControllerResponse(throttle_time=ZERO, error_code=int(error_code), error_message=message)
