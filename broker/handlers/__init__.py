"""One module per API, named as its row in `protocol.api.table` and imported when first used.

APIs that are always refused are rows of the table in `refusals` instead. In a module,
`handle(ctx, request)` returns the response or an awaitable of it, and raises KafkaError. A module may also have

- `error_response(ctx, request, error)`, if `protocol.api.failure` cannot make the answer,
- `unsupported_version()`, the answer to a version that is not served (ApiVersions; others end the connection),
- `decode(version, buffer, position)` and `encode(response, version, correlation_id)`, if the codec is hand-written,
- `prepare(ctx, request)`, which turns a request into what `handle` gets, using only the request and its client,
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from broker.handlers.refusals import REFUSALS


def controller_handler_of(api_name: str) -> Any:
    """The handler of an API on a controller's listener: its module in `controller`, or that of the broker."""
    name = f"{__name__}.controller.{api_name}"
    return handler_of(api_name) if importlib.util.find_spec(name) is None else importlib.import_module(name)


def handler_of(api_name: str) -> Any:
    """The API's module, or its row in `refusals`."""
    return REFUSALS.get(api_name) or importlib.import_module(f"{__name__}.{api_name}")
