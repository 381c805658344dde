"""Delegation tokens: made, renewed, expired and removed (KIP-48, KIP-900; Kafka's `DelegationTokenControlManager`).

A token's secret is the HMAC of its id, so that it need not be in the metadata: whoever has the key can compute it.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from controller.decision import Decision
from metadata.image import MetadataImage
from protocol.errors import (
    DelegationTokenExpired,
    DelegationTokenNotFound,
    DelegationTokenOwnerMismatch,
    InvalidPrincipalType,
    InvalidRequest,
    PolicyViolation,
)
from protocol.metadata.credentials import DelegationTokenRecord, RemoveDelegationTokenRecord

USER_PREFIX = "User:"

MOST_PRINCIPAL_CHARACTERS = 8192
"""The names of a token's owner, requester and renewers together: they stay in the memory of each node."""


@dataclass(frozen=True, slots=True)
class TokenSettings:
    """The key, the longest times in ms (a token's whole life, and that without a renewal), and two other bounds."""

    key: bytes = field(repr=False)
    max_lifetime_ms: int
    renewal_ms: int
    most_of_an_owner: int
    most_renewers: int


@dataclass(frozen=True, slots=True)
class NewToken:
    """The request for a token. Principals are texts such as `User:alice`; a lifetime of 0 is the longest."""

    token_id: str
    owner: str
    requester: str
    renewers: Sequence[str]
    lifetime_ms: int


def secret_of(key: bytes, token_id: str) -> bytes:
    """Return what the token's owner shows: an HMAC of its id."""
    return hmac.digest(key, token_id.encode(), "sha512")


def is_expired(token: DelegationTokenRecord, now_ms: int) -> bool:
    return token.max_timestamp < now_ms or token.expiration_timestamp < now_ms


def decide_create(
    image: MetadataImage, wanted: NewToken, tokens: TokenSettings, now_ms: int
) -> Decision[DelegationTokenRecord]:
    """The new token.

    Raises InvalidPrincipalType for a renewer who is no user, InvalidRequest for too many of them or for long names, and
    PolicyViolation if the owner has as many tokens as one may have.
    """
    if any(not each.startswith(USER_PREFIX) for each in wanted.renewers):
        raise InvalidPrincipalType
    _check_bounds(image, wanted, tokens)
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


def _check_bounds(image: MetadataImage, wanted: NewToken, tokens: TokenSettings) -> None:
    if len(wanted.renewers) > tokens.most_renewers:
        raise InvalidRequest(
            f"A token may have {tokens.most_renewers} renewers (odradek.delegation.token.max.renewers), "
            f"not {len(wanted.renewers)}."
        )
    characters = len(wanted.owner) + len(wanted.requester) + sum(map(len, wanted.renewers))
    if characters > MOST_PRINCIPAL_CHARACTERS:
        raise InvalidRequest(
            f"The names of a token's owner, requester and renewers may have {MOST_PRINCIPAL_CHARACTERS} characters "
            f"together, not {characters}."
        )
    if image.token_counts.get(wanted.owner, 0) >= tokens.most_of_an_owner:
        raise PolicyViolation(
            f"{wanted.owner} has {tokens.most_of_an_owner} delegation tokens, the most that one owner may have "
            "(odradek.delegation.token.max.per.owner). Expire some first."
        )


def decide_renew(
    image: MetadataImage, token_id: str | None, principal: str, period_ms: int, tokens: TokenSettings, now_ms: int
) -> Decision[int]:
    """When the renewed token expires; `period_ms` of 0 or less is the longest. The id None is that of no token.

    Raises DelegationTokenNotFound, DelegationTokenExpired, DelegationTokenOwnerMismatch.
    """
    token = _find(image, token_id)
    if is_expired(token, now_ms):
        raise DelegationTokenExpired
    _require_right(token, principal)
    renewal_ms = min(tokens.renewal_ms, period_ms) if period_ms > 0 else tokens.renewal_ms
    return _until(token, _later(now_ms, renewal_ms))


def decide_expire(
    image: MetadataImage, token_id: str | None, principal: str, period_ms: int, now_ms: int
) -> Decision[int]:
    """When the token expires: after `period_ms`, or now and for good if that is negative.

    Raises DelegationTokenNotFound, DelegationTokenExpired, DelegationTokenOwnerMismatch.
    """
    token = _find(image, token_id)
    _require_right(token, principal)
    if period_ms < 0:
        return Decision([RemoveDelegationTokenRecord(token_id=token.token_id)], now_ms)
    if is_expired(token, now_ms):
        raise DelegationTokenExpired
    return _until(token, _later(now_ms, period_ms))


def decide_sweep(image: MetadataImage, token_ids: Iterable[str], now_ms: int) -> Decision[int]:
    """Remove those of these tokens that have expired; how many there were."""
    found = [token for each in token_ids if (token := image.tokens.get(each)) is not None]
    expired = [token.token_id for token in found if is_expired(token, now_ms)]
    return Decision([RemoveDelegationTokenRecord(token_id=each) for each in expired], len(expired))


def _find(image: MetadataImage, token_id: str | None) -> DelegationTokenRecord:
    token: DelegationTokenRecord | None = None if token_id is None else image.tokens.get(token_id)
    if token is None:
        raise DelegationTokenNotFound
    return token


def _require_right(token: DelegationTokenRecord, principal: str) -> None:
    if principal != token.owner and principal not in token.renewers:
        raise DelegationTokenOwnerMismatch


def _until(token: DelegationTokenRecord, expires_ms: int) -> Decision[int]:
    expires_ms = min(token.max_timestamp, expires_ms)
    return Decision([replace(token, expiration_timestamp=expires_ms)], expires_ms)


def _later(now_ms: int, duration_ms: int) -> int:
    return min(now_ms + duration_ms, (1 << 63) - 1)
