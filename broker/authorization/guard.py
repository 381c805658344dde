"""Puts the checks of an API's rights before its handler, with the permissions of the request's client."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from broker.authorization.checks import Fail, checks_of
from broker.network.handler import Handle
from broker.request_context import RequestContext
from broker.security.permissions import Permissions
from protocol.api import failure

if TYPE_CHECKING:
    from broker.network.handler import Handler
    from broker.network.request import Peer
    from broker.security.authorizer import Authorizer
    from protocol.api.row import Api


class Guard:
    """See `broker.network.ports.Guards`."""

    def __init__(self, authorizer: Authorizer) -> None:
        self.authorizer = authorizer

    def guarded(self, api: Api, handler: Handler, *, of_controller: bool) -> Handle:
        """The handler's function with the API's checks before it."""
        rights = api.rights_of_nodes if of_controller and api.rights_of_nodes is not None else api.rights
        handle = handler.handle
        if not rights:
            return handle
        own = handler.failed
        fail = Fail(api.name, own or partial(failure.failed, api), own or partial(failure.of_items, api))
        checked = handle
        for check in reversed(list(checks_of(api, rights))):
            checked = check.around(checked, fail)
        may_be_elsewhere = api.place == "decides"
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
