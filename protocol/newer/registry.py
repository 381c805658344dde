"""What Kafka has not: AskRegistry 0, a request to the schema registry that one node sends on to another."""

from __future__ import annotations

from ..declared import Bool, Bytes, Int16, String
from .declare import ErrorCode, Milliseconds, request, response


@request(31003, 0)
class AskRegistryRequest:
    """`asked` is JSON: method, path, query and body. `principal` is empty where everybody may do everything."""

    principal: String
    host: String
    asked: Bytes


@response(31003, 0)
class AskRegistryResponse:
    """`value` is JSON; with `is_raw` it is a text that is the whole answer."""

    throttle_time: Milliseconds
    error_code: ErrorCode
    error_message: String | None
    status: Int16
    is_raw: Bool
    value: Bytes
