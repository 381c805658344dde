"""Delegation tokens: made, renewed, expired and removed (KIP-48, KIP-900; Kafka's `DelegationTokenControlManager`).

A token's secret is the HMAC of its id, so that it need not be in the metadata: whoever has the key can compute it.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice

from controller.decision import MOST_RECORDS, Decision
from metadata.image import MetadataImage
from protocol.errors import (
    DelegationTokenExpired,
    DelegationTokenNotFound,
    DelegationTokenOwnerMismatch,
    InvalidPrincipalType,
)
from protocol.metadata.credentials import DelegationTokenRecord, RemoveDelegationTokenRecord

USER_PREFIX = "User:"


@dataclass(frozen=True, slots=True)
class TokenSettings:
    """The key, and the longest times in ms: a token's whole life, and that without a renewal."""

    key: bytes = field(repr=False)
    max_lifetime_ms: int
    renewal_ms: int


@dataclass(frozen=True, slots=True)
class NewToken:
    """What a token is asked for with. Principals are texts such as `User:alice`; a lifetime of 0 is the longest."""

    token_id: str
    owner: str
    requester: str
    renewers: Sequence[str]
    lifetime_ms: int


@lru_cache(maxsize=16384)
def secret_of(key: bytes, token_id: str) -> bytes:
    """What the token's owner shows: an HMAC of its id."""
    return hmac.digest(key, token_id.encode(), "sha512")


def is_expired(token: DelegationTokenRecord, now_ms: int) -> bool:
    return token.max_timestamp < now_ms or token.expiration_timestamp < now_ms


def decide_create(wanted: NewToken, tokens: TokenSettings, now_ms: int) -> Decision[DelegationTokenRecord]:
    """The new token. Raises InvalidPrincipalType for a renewer who is no user."""
    if any(not each.startswith(USER_PREFIX) for each in wanted.renewers):
        raise InvalidPrincipalType
    lifetime_ms = tokens.max_lifetime_ms
    if wanted.lifetime_ms > 0:
        lifetime_ms = min(lifetime_ms, wanted.lifetime_ms)
    token = DelegationTokenRecord(
        owner=wanted.owner,
        requester=wanted.requester,
        renewers=tuple(wanted.renewers),
        issue_timestamp=now_ms,
        max_timestamp=_later(now_ms, lifetime_ms),
        expiration_timestamp=min(_later(now_ms, lifetime_ms), _later(now_ms, tokens.renewal_ms)),
        token_id=wanted.token_id,
    )
    return Decision([token], token)


def decide_renew(
    image: MetadataImage, secret: bytes, principal: str, period_ms: int, tokens: TokenSettings, now_ms: int
) -> Decision[int]:
    """When the renewed token expires; `period_ms` of 0 or less is the longest.

    Raises DelegationTokenNotFound, DelegationTokenExpired, DelegationTokenOwnerMismatch.
    """
    token = _find(image, secret, tokens)
    if is_expired(token, now_ms):
        raise DelegationTokenExpired
    _require_right(token, principal)
    renewal_ms = min(tokens.renewal_ms, period_ms) if period_ms > 0 else tokens.renewal_ms
    return _until(token, _later(now_ms, renewal_ms))


def decide_expire(
    image: MetadataImage, secret: bytes, principal: str, period_ms: int, tokens: TokenSettings, now_ms: int
) -> Decision[int]:
    """When the token expires: after `period_ms`, or now and for good if that is negative.

    Raises DelegationTokenNotFound, DelegationTokenExpired, DelegationTokenOwnerMismatch.
    """
    token = _find(image, secret, tokens)
    _require_right(token, principal)
    if period_ms < 0:
        return Decision([RemoveDelegationTokenRecord(token_id=token.token_id)], now_ms)
    if is_expired(token, now_ms):
        raise DelegationTokenExpired
    return _until(token, _later(now_ms, period_ms))


def decide_sweep(image: MetadataImage, now_ms: int) -> Decision[int]:
    """Remove tokens that have expired, as many as one decision may write records; how many there were."""
    found = (token.token_id for token in image.tokens.values() if is_expired(token, now_ms))
    expired = list(islice(found, MOST_RECORDS))
    return Decision([RemoveDelegationTokenRecord(token_id=each) for each in expired], len(expired))


def _find(image: MetadataImage, secret: bytes, tokens: TokenSettings) -> DelegationTokenRecord:
    for token in image.tokens.values():
        if hmac.compare_digest(secret_of(tokens.key, token.token_id), secret):
            found: DelegationTokenRecord = token
            return found
    raise DelegationTokenNotFound


def _require_right(token: DelegationTokenRecord, principal: str) -> None:
    if principal != token.owner and principal not in token.renewers:
        raise DelegationTokenOwnerMismatch


def _until(token: DelegationTokenRecord, expires_ms: int) -> Decision[int]:
    expires_ms = min(token.max_timestamp, expires_ms)
    return Decision([replace(token, expiration_timestamp=expires_ms)], expires_ms)


def _later(now_ms: int, duration_ms: int) -> int:
    return min(now_ms + duration_ms, (1 << 63) - 1)
