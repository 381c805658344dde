"""Tokens with a signature, checked by PyJWT (`BrokerJwtValidator`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jwt
from jwt.exceptions import PyJWTError

from broker.security.sasl.conversations import BadTokenError, Token, seconds_of
from broker.security.sasl.jwks import SIGNATURES, Jwks, KeysError

_OF_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")


@dataclass(frozen=True, slots=True)
class Expectations:
    """The claims that a token must have. Empty audiences and no issuer: any."""

    audiences: tuple[str, ...]
    issuer: str | None
    skew_s: int
    scope_claim: str
    name_claim: str


class SignedTokens:
    def __init__(self, keys: Jwks, expected: Expectations, wall_ms: Callable[[], int]) -> None:
        self._keys = keys
        self._expected = expected
        self._wall_ms = wall_ms

    async def validate(self, text: str) -> Token:
        try:
            header = jwt.get_unverified_header(text)
            candidates = await self._keys.keys_for(header.get("kid"))
        except (PyJWTError, KeysError) as error:
            raise BadTokenError(str(error)) from error
        algorithm = header.get("alg")
        if algorithm not in SIGNATURES:
            raise BadTokenError("the token is not signed in a way that is taken here")
        problem = "no key fits the token"
        for key in candidates:
            if algorithm != key.algorithm_name and not (algorithm in _OF_RSA and key.key_type == "RSA"):
                continue
            try:
                return self._token(self._claims(text, key, algorithm))
            except PyJWTError as error:
                problem = str(error)
        raise BadTokenError(problem)

    def _claims(self, text: str, key: jwt.PyJWK, algorithm: str) -> dict[str, Any]:
        expected = self._expected
        claims: dict[str, Any] = jwt.decode(
            text,
            key.key,
            algorithms=[algorithm],
            audience=list(expected.audiences) or None,
            issuer=expected.issuer,
            options={
                "require": ["exp", "iat"],
                "verify_aud": bool(expected.audiences),
                "verify_exp": False,  # by the node's clock, in `_require_valid_now`
                "verify_nbf": False,
                "verify_iat": False,  # Kafka wants the claim, and lets one of tomorrow through
                "verify_sub": False,
                "verify_jti": False,
            },
        )
        return claims

    def _require_valid_now(self, claims: dict[str, Any]) -> None:
        now_s, skew_s = self._wall_ms() / 1000, self._expected.skew_s
        end_s = seconds_of(claims, "exp")
        if now_s - skew_s >= end_s:
            raise BadTokenError("the token has expired")
        if any(name in claims and end_s < seconds_of(claims, name) for name in ("iat", "nbf")):
            raise BadTokenError("the token begins after its end")
        if "nbf" in claims and now_s + skew_s < seconds_of(claims, "nbf"):
            raise BadTokenError("the token is not valid yet")

    def _token(self, claims: dict[str, Any]) -> Token:
        self._require_valid_now(claims)
        name = claims.get(self._expected.name_claim)
        if not isinstance(name, str) or not name.strip():
            raise BadTokenError(f"the token has no {self._expected.name_claim}")
        scope = claims.get(self._expected.scope_claim, "")
        parts = scope if isinstance(scope, list) else [scope]
        if not all(isinstance(part, str) for part in parts):
            raise BadTokenError(f"{self._expected.scope_claim} is neither a text nor a list of texts")
        return Token(name.strip(), int(seconds_of(claims, "exp") * 1000))
