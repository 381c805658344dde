"""SaslAuthenticate 0-2 (KIP-152): no listener speaks SASL; every connected client counts as authenticated."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from broker.network.context import RequestContext
from protocol.errors import IllegalSaslState

if TYPE_CHECKING:
    from kio.schema.sasl_authenticate.v2 import SaslAuthenticateRequest


def handle(_ctx: RequestContext, _request: SaslAuthenticateRequest) -> NoReturn:
    raise IllegalSaslState("SaslAuthenticate request received after successful authentication")
