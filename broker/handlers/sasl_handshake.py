"""SaslHandshake 0-1 (KIP-43): no listener speaks SASL, so a handshake is always refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from broker.network.context import RequestContext
from protocol.errors import IllegalSaslState

if TYPE_CHECKING:
    from kio.schema.sasl_handshake.v1 import SaslHandshakeRequest


def handle(_ctx: RequestContext, _request: SaslHandshakeRequest) -> NoReturn:
    raise IllegalSaslState
