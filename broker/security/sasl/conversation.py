"""What a mechanism is to the authenticator: tokens of the client in, challenges out, and a principal at the end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from broker.network.request import Principal


class AuthenticationError(Exception):
    """The client is refused. It is told the text (SASL_AUTHENTICATION_FAILED), which says nothing about any user."""


@dataclass(frozen=True, slots=True)
class Challenge:
    """The client has to go on."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Success:
    """The client is known. `expires_ms` is when what it showed ends, in wall-clock time; None for never."""

    data: bytes
    principal: Principal
    expires_ms: int | None = None


Step = Challenge | Success


class Conversation(Protocol):
    """One authentication of one client, by one mechanism."""

    def evaluate(self, token: bytes) -> Step | Awaitable[Step]:
        """The answer to the client's next token.

        Raises AuthenticationError, and CloseConnectionError where Kafka closes without a word.
        """


Begin = Callable[[], Conversation]
"""Begins the conversation of a mechanism."""


def invalid_credentials(mechanism: str) -> AuthenticationError:
    """The error that tells nothing, not even whether the user exists (`SaslServerAuthenticator`)."""
    return AuthenticationError(
        f"Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism}"
    )
