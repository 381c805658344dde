"""SaslHandshake and SaslAuthenticate on a connection to another node (KIP-43, KIP-152; `SaslClientAuthenticator`)."""

from __future__ import annotations

from functools import partial

from kio.schema.errors import ErrorCode
from kio.schema.sasl_authenticate.v2 import SaslAuthenticateRequest
from kio.schema.sasl_handshake.v1 import SaslHandshakeRequest

from broker.peers.call import PeerAuthenticationError, entity_call
from broker.peers.connection import PeerConnection
from broker.security.outgoing.logins import Account, Login, LoginError
from storage.workers import Workers


async def authenticate(
    connection: PeerConnection, account: Account, login: Login, workers: Workers, timeout_ms: float
) -> float | None:
    """Log in. Returns for how long that holds in ms, None for ever. Raises PeerError."""
    handshake = entity_call(SaslHandshakeRequest(mechanism=account.mechanism))
    chosen = await connection.send(handshake, handshake.highest, timeout_ms)
    if chosen.error_code is not ErrorCode.none:
        raise PeerAuthenticationError(
            f"{connection.address} does not take {account.mechanism}: it has {', '.join(chosen.mechanisms)}"
        )
    lifetime_ms = 0.0
    token: bytes | None = next(login)
    while token is not None:
        call = entity_call(SaslAuthenticateRequest(auth_bytes=token))
        answer = await connection.send(call, call.highest, timeout_ms)
        if answer.error_code is not ErrorCode.none:
            said = answer.error_message or answer.error_code.name
            raise PeerAuthenticationError(f"{connection.address} refuses {account.name}: {said}")
        lifetime_ms = answer.session_lifetime.total_seconds() * 1000
        try:
            token = await workers.call(partial(_next, login, answer.auth_bytes))
        except (LoginError, ValueError) as error:
            raise PeerAuthenticationError(f"{connection.address} cannot be trusted: {error}") from error
    return lifetime_ms or None


def _next(login: Login, answer: bytes) -> bytes | None:
    """The next message, None at the end. Takes milliseconds where a password is stretched."""
    try:
        return login.send(answer)
    except StopIteration:
        return None
