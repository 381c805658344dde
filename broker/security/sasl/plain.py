"""PLAIN: a name and a password in one message (RFC 4616, `PlainSaslServer`)."""

from __future__ import annotations

import hmac
from collections.abc import Mapping

from broker.network.request import USER, Principal
from broker.security.sasl.conversation import AuthenticationError, Success

_NOBODY = b"no password is this one, which takes the time of a comparison"


class PlainConversation:
    """`passwords` has the users."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords

    def evaluate(self, token: bytes) -> Success:
        parts = token.decode("utf-8", "replace").split("\0")
        if len(parts) != 3:
            raise AuthenticationError(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        on_behalf_of, name, password = parts
        if not name:
            raise AuthenticationError("Authentication failed: username not specified")
        if not password:
            raise AuthenticationError("Authentication failed: password not specified")
        expected = self._passwords.get(name)
        known = _NOBODY if expected is None else expected.encode()
        same = hmac.compare_digest(known, password.encode("utf-8", "replace"))
        if not same or expected is None:
            raise AuthenticationError("Authentication failed: Invalid username or password")
        if on_behalf_of not in ("", name):
            raise AuthenticationError(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        return Success(b"", Principal(USER, name))
