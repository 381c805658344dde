"""The response of an API that failed as a whole, for all APIs whose response has a top-level error code."""

from __future__ import annotations

import dataclasses
from typing import Any

from protocol.api import messages
from protocol.api.table import Api
from protocol.durations import ZERO
from protocol.errors import KafkaError


def error_response(api: Api, error: KafkaError) -> Any:
    """The newest response class of `api` with the error code (and message), everything else empty.

    Raises RuntimeError if the response has no such field; then the handler's module must define `error_response`.
    """
    response_class = messages.newest_response(api)
    fields = {field.name: field for field in dataclasses.fields(response_class)}
    if "error_code" not in fields:
        raise RuntimeError(f"{api.name} has no top-level error code and no error_response of its own")
    values: dict[str, Any] = {"error_code": error.code}
    if "error_message" in fields:
        values["error_message"] = error.message
    for name, field in fields.items():
        if name not in values and field.default is dataclasses.MISSING:
            values[name] = _empty(field)
    return response_class(**values)


def _empty(field: dataclasses.Field[Any]) -> Any:
    kind = field.metadata.get("kafka_type")
    if str(field.type).startswith("tuple"):
        return ()
    match kind:
        case "timedelta_i32" | "timedelta_i64":
            return ZERO
        case "bool":
            return False
        case "string":
            return ""
        case "uuid":
            return None
        case "bytes" | "records":
            return b""
        case _:
            return -1
