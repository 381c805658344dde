"""UnregisterController 0 (KIP-1312). The error is a plain number, as kio has no name for the newest code."""

from __future__ import annotations

from datetime import timedelta

from .declare import of, request, response


@request(94, 0)
class UnregisterControllerRequest:
    controller_id: int = of("int32")


@response(94, 0)
class UnregisterControllerResponse:
    throttle_time: timedelta = of("timedelta_i32")
    error_code: int = of("int16")
    error_message: str | None = of("string")


REQUEST, RESPONSE = UnregisterControllerRequest, UnregisterControllerResponse
