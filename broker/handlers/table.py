"""Where the handler of each API is, and the one function before those that a controller decides.

The node hands `handler_of` to dispatch, which imports no handler itself.
"""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import Any

from broker.handlers.refusals import REFUSALS
from broker.network.handler import Handle, Handler
from broker.request_context import RequestContext
from protocol.api.row import Api

ON_CONTROLLER = frozenset(
    {
        "allocate_producer_ids",
        "alter_configs",
        "alter_partition",
        "api_versions",
        "assign_replicas_to_dirs",
        "broker_heartbeat",
        "broker_registration",
        "envelope",
        "fetch",
        "fetch_snapshot",
        "incremental_alter_configs",
    }
)
"""APIs with another handler on a controller's listener, or only there."""


def handler_of(api: Api, *, of_controller: bool = False) -> Handler:
    """The handler of an API; one that a controller decides sends the request on where the controller is elsewhere."""
    refusal = REFUSALS.get(api.name)
    if refusal is not None:
        found: Any = Handler(refusal.handle)
    else:
        package = f"{__package__}.controller" if of_controller and api.name in ON_CONTROLLER else __package__
        found = getattr(importlib.import_module(f"{package}.{api.name}"), api.name)
    handler = found if isinstance(found, Handler) else Handler(found)
    if api.place == "decides" and not handler.forwards:
        return replace(handler, handle=_decided_by_controller(handler))
    return handler


def _decided_by_controller(handler: Handler) -> Handle:
    """The handler's function; a broker whose controllers are other nodes sends the request on to them (KIP-590)."""
    handle, first = handler.handle, handler.first

    def forward_or_handle(ctx: RequestContext, request: Any) -> Any:
        if not ctx.controller.is_elsewhere:
            return handle(ctx, request)
        if first is not None:
            first(ctx)
        return ctx.controller.forward(ctx)

    return forward_or_handle
