"""Tokens without a signature, for tests only (`OAuthBearerUnsecuredValidatorCallbackHandler`).

Options of the login module, as Kafka names them: unsecuredValidatorPrincipalClaimName (sub),
unsecuredValidatorScopeClaimName (scope), unsecuredValidatorRequiredScope, unsecuredValidatorAllowableClockSkewMs (0).
"""

from __future__ import annotations

import binascii
import json
from base64 import urlsafe_b64decode
from collections.abc import Callable, Mapping
from typing import Any

from broker.security.sasl.conversations import BadTokenError, Token, seconds_of

_OPTION = "unsecuredValidator"


class UnsecuredTokens:
    """Raises ValueError if the skew is no number."""

    def __init__(self, options: Mapping[str, str], wall_ms: Callable[[], int]) -> None:
        self._wall_ms = wall_ms
        self._principal_claim = options.get(f"{_OPTION}PrincipalClaimName") or "sub"
        self._scope_claim = options.get(f"{_OPTION}ScopeClaimName") or "scope"
        self._required_scope = (options.get(f"{_OPTION}RequiredScope") or "").split()
        self._skew_ms = int(options.get(f"{_OPTION}AllowableClockSkewMs") or 0)
        if self._skew_ms < 0:
            raise ValueError(f"{_OPTION}AllowableClockSkewMs is negative")

    async def validate(self, text: str) -> Token:
        header, claims = _parts(text)
        if header.get("alg") != "none":
            raise BadTokenError("the token is signed")
        name = claims.get(self._principal_claim)
        if not isinstance(name, str) or not name.strip():
            raise BadTokenError(f"the token has no {self._principal_claim}")
        expires_ms, issued_ms = _time(claims, "exp"), _time(claims, "iat")
        now_ms = self._wall_ms()
        if expires_ms is None or now_ms - self._skew_ms >= expires_ms:
            raise BadTokenError("the token has expired")
        if issued_ms is not None and (issued_ms > now_ms + self._skew_ms or issued_ms >= expires_ms):
            raise BadTokenError("the token was issued later than now, or than it ends")
        if not {*self._required_scope} <= _scope(claims.get(self._scope_claim)):
            raise BadTokenError("the token lacks a scope", "insufficient_scope", " ".join(self._required_scope))
        return Token(name, int(expires_ms))


def _parts(text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The header and the claims; a signature must be empty."""
    pieces = text.split(".")
    if len(pieces) != 3 or pieces[2]:
        raise BadTokenError("not an unsigned token")
    header, claims = (_object(piece) for piece in pieces[:2])
    return header, claims


def _object(piece: str) -> dict[str, Any]:
    try:
        found = json.loads(urlsafe_b64decode(piece + "=" * (-len(piece) % 4)))
    except (binascii.Error, ValueError, RecursionError) as error:
        raise BadTokenError("a part of the token is not JSON in base64") from error
    if not isinstance(found, dict):
        raise BadTokenError("a part of the token is no JSON object")
    return found


def _time(claims: Mapping[str, Any], name: str) -> float | None:
    return None if claims.get(name) is None else seconds_of(claims, name) * 1000.0


def _scope(value: object) -> set[str]:
    """The scopes of a token: a text is one, as in Kafka. Raises BadTokenError."""
    listed = [value] if isinstance(value, str) else value or []
    if not isinstance(listed, list):
        raise BadTokenError("the token's scope is neither a text nor a list of texts")
    return {scope.strip() for scope in listed if isinstance(scope, str) and scope.strip()}
