"""Puts the checks of the table before the handlers, with the permissions of the request's client."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from broker.authorization.checks import Check, Fail, Handle
from broker.authorization.table import CHECKS, CONTROLLER_CHECKS, DECIDED_BY_CONTROLLER
from broker.request_context import RequestContext
from broker.security.permissions import Permissions
from protocol.api import failure

if TYPE_CHECKING:
    from broker.network.request import Peer
    from broker.security.authorizer import Authorizer
    from protocol.api.table import Api


class Guard:
    """See `broker.network.ports.Guards`."""

    def __init__(self, authorizer: Authorizer) -> None:
        self.authorizer = authorizer

    def guarded(self, api: Api, handler: Any, *, of_controller: bool) -> Handle:
        """The handler's function with the API's checks before it."""
        checks = (CONTROLLER_CHECKS if of_controller else CHECKS)[api.name]
        handle: Handle = handler.handle
        if not checks:
            return handle
        own = getattr(handler, "error_response", None)
        fail = Fail(api.name, own or partial(failure.failed, api), own or partial(failure.of_items, api))
        checked = _with_checks(handle, checks, fail)
        may_be_elsewhere = api.name in DECIDED_BY_CONTROLLER
        permissions_of = self.permissions_of

        def guarded(ctx: RequestContext, request: Any) -> Any:
            if may_be_elsewhere and ctx.controller.is_elsewhere:
                return handle(ctx, request)
            permissions = ctx.permissions = permissions_of(ctx.connection)
            return handle(ctx, request) if permissions.is_super_user else checked(ctx, request)

        return guarded

    def permissions_of(self, client: Peer) -> Permissions:
        """What the client may do. They are kept at its connection."""
        known: Permissions | None = client.permissions
        if known is None or known.of is not client.principal:
            known = client.permissions = Permissions(self.authorizer, client.principal, client.client_address)
        return known


def _with_checks(handle: Handle, checks: tuple[Check, ...], fail: Fail) -> Handle:
    for check in reversed(checks):
        handle = check.around(handle, fail)
    return handle
