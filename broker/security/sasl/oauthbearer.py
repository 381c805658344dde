"""OAUTHBEARER: a token in one message (RFC 7628, KIP-255, `OAuthBearerSaslServer`).

A bad token is answered with a JSON text that says so, and is no failure yet: the client answers with the byte 0x01,
and then fails. It may also send a better token instead.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from broker.network.request import USER, CloseConnectionError, Principal
from broker.security.sasl.conversation import AuthenticationError, Challenge, Step, Success, invalid_credentials

MECHANISM = "OAUTHBEARER"
_END = "\x01"
# The quantifiers give nothing back (`++`): no message makes a match take more than its length.
_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]++|=2C|=3D)++"
_PAIRS = rf"((?:[A-Za-z]++=[\x21-\x7e \t\r\n]++{_END})*+)"
_FIRST = re.compile(rf"n,(?:a=({_NAME}))?,{_END}{_PAIRS}{_END}")
_AUTH = re.compile(r"(\w++) ++([-_~+/.a-zA-Z0-9]++=*+)", re.ASCII)

_ENDLESS_S = 10**15
"""Times of tokens are below, so that they fit in the milliseconds of the protocol."""


class BadTokenError(Exception):
    """A token that is not accepted. `status` is OAuth's word: invalid_token or insufficient_scope."""

    def __init__(self, reason: str, status: str = "invalid_token", scope: str | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.scope = scope


@dataclass(frozen=True, slots=True)
class Token:
    """What a good token says: whose it is, and when it ends (wall-clock time)."""

    name: str
    expires_ms: int


def seconds_of(claims: Mapping[str, Any], name: str) -> float:
    """A claim that is a time, in seconds since 1970. Raises BadTokenError if it is none."""
    value = claims[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _ENDLESS_S:
        raise BadTokenError(f"{name} is no time")
    return value


Validate = Callable[[str], Awaitable[Token]]
"""The token that a text is. Raises BadTokenError."""


class OAuthBearerConversation:
    def __init__(self, validate: Validate) -> None:
        self._validate = validate
        self._refusal: str | None = None

    async def evaluate(self, token: bytes) -> Step:
        if token == _END.encode() and self._refusal is not None:
            raise AuthenticationError(self._refusal)
        self._refusal = None
        on_behalf_of, text = _first_message(token.decode("utf-8", "replace"))
        try:
            found = await self._validate(text)
        except BadTokenError as error:
            answer = {"status": error.status} | ({"scope": error.scope} if error.scope else {})
            self._refusal = json.dumps(answer, separators=(",", ":"))
            return Challenge(self._refusal.encode())
        if on_behalf_of not in ("", found.name):
            raise AuthenticationError(
                "Authentication failed: Client requested an authorization id that is different from the token's "
                "principal name"
            )
        return Success(b"", Principal(USER, found.name), found.expires_ms)


def _first_message(text: str) -> tuple[str, str]:
    """On whose behalf the client comes, and its token."""
    match = _FIRST.fullmatch(text)
    if match is None:
        raise invalid_credentials(MECHANISM)
    on_behalf_of, pairs = match.groups()
    values = dict(pair.split("=", 1) for pair in pairs.split(_END) if pair)
    auth = _AUTH.fullmatch(values.get("auth", ""))
    if auth is None:
        raise invalid_credentials(MECHANISM)
    scheme, token = auth.groups()
    if scheme.lower() != "bearer":
        raise CloseConnectionError(f"OAUTHBEARER with the scheme {scheme}")
    return on_behalf_of or "", token
