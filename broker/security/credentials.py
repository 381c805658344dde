"""The SCRAM credentials that the metadata have now: those of users, and those that delegation tokens stand for."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Awaitable, Callable
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from broker.config.delegation_tokens import token_settings
from broker.network.request import Principal
from broker.security.sasl.scram import ScramCredential, user_credential
from controller.delegation_tokens import is_expired, secret_of
from controller.scram import ScramMechanism, stretched

if TYPE_CHECKING:
    from broker.config.current import CurrentConfig
    from broker.membership.metadata_cache import MetadataCache
    from protocol.metadata.credentials import DelegationTokenRecord
    from storage.workers import Workers

MOST_KEPT = 10_000
"""Credentials of tokens that are kept: each costs a worker some 2 ms, once."""


class Credentials:
    """The credentials in the metadata that `use` names: none before that, and others once a snapshot is restored."""

    def __init__(self, current: CurrentConfig, random: Random, wall_ms: Callable[[], int], workers: Workers) -> None:
        self._current = current
        self._random = random
        self._wall_ms = wall_ms
        self._workers = workers
        self._cache: MetadataCache | None = None
        self._of_tokens: dict[tuple[str, ScramMechanism], ScramCredential] = {}

    def use(self, cache: MetadataCache) -> None:
        self._cache = cache

    def find(
        self, mechanism: ScramMechanism, name: str, is_token: bool
    ) -> ScramCredential | Awaitable[ScramCredential] | None:
        """The credential of a user; if `is_token`, of the delegation token with that id, unless it has expired.

        The first time that a token is asked for, a worker has to compute it.
        """
        if self._cache is None:
            return None
        if is_token:
            return self._of_token(self._cache, mechanism, name)
        record = self._cache.image.scram.get((name, mechanism))
        return None if record is None else user_credential(record)

    def _of_token(
        self, cache: MetadataCache, mechanism: ScramMechanism, token_id: str
    ) -> ScramCredential | Awaitable[ScramCredential] | None:
        """The password is the token's secret, and the principal its owner."""
        tokens, token = token_settings(self._current.config), cache.image.tokens.get(token_id)
        if tokens is None or token is None or is_expired(token, self._wall_ms()):
            return None
        kept = self._of_tokens.get((token_id, mechanism))
        return self._stretched(mechanism, token, tokens.key) if kept is None else _owned(kept, token)

    async def _stretched(self, mechanism: ScramMechanism, token: DelegationTokenRecord, key: bytes) -> ScramCredential:
        password = b64encode(secret_of(key, token.token_id)).decode()
        record = await self._workers.call(lambda: stretched(token.token_id, mechanism, password, self._random))
        if len(self._of_tokens) >= MOST_KEPT:
            self._of_tokens.clear()
        made = self._of_tokens[token.token_id, mechanism] = user_credential(record)
        return _owned(made, token)


def _owned(credential: ScramCredential, token: DelegationTokenRecord) -> ScramCredential:
    """The credential with the token's owner and its present end, which moves when the token is renewed."""
    kind, _, name = token.owner.partition(":")
    return replace(
        credential, owner=Principal(kind, name, token_authenticated=True), expires_ms=token.expiration_timestamp
    )
