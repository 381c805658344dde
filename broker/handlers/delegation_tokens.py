"""What the handlers of the four APIs about delegation tokens have in common (KIP-48)."""

from __future__ import annotations

from broker.config.listeners import protocol_map
from broker.network.principal import ANONYMOUS, Principal
from broker.request_context import RequestContext
from broker.security.delegation_tokens import token_settings
from controller.delegation_tokens import TokenSettings
from protocol.errors import DelegationTokenDisabled, UnsupportedByAuthentication


def require_token_client(ctx: RequestContext) -> None:
    """Raises UnsupportedByAuthentication for a client that has not authenticated, or has done so with a token.

    Of a request that a broker has sent on, only the second is checked here: the broker has checked the first.
    """
    connection = ctx.connection
    if connection.principal.token_authenticated:
        raise UnsupportedByAuthentication
    if connection.is_forwarded:
        return
    protocol = protocol_map(ctx.local.config).get(connection.listener_name)
    if protocol in ("PLAINTEXT", None) or (protocol == "SSL" and connection.principal == ANONYMOUS):
        raise UnsupportedByAuthentication


def require_tokens(ctx: RequestContext) -> TokenSettings:
    """The settings of tokens. Raises DelegationTokenDisabled without a key."""
    settings = token_settings(ctx.local.config)
    if settings is None:
        raise DelegationTokenDisabled
    return settings


def principal_of(text: str) -> Principal:
    """The principal that a record has as a text."""
    kind, _, name = text.partition(":")
    return Principal(kind, name)
