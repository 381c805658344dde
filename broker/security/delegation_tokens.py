"""Delegation tokens (KIP-48): their settings, those in the metadata, and the SCRAM credentials that they stand for."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from broker.config.broker_config import BrokerConfig, CurrentConfig
from broker.network.request import Principal
from broker.security.sources import ScramCredential, user_credential
from controller.decision import Decision
from controller.delegation_tokens import TokenSettings, decide_sweep, is_expired, secret_of
from controller.scram import SALT_BYTES, ScramMechanism, stretched
from metadata.image import MetadataImage
from protocol.metadata.credentials import DelegationTokenRecord

if TYPE_CHECKING:
    from broker.membership.metadata_cache import MetadataCache
    from storage.workers import Workers

IN_A_TURN = 1000
"""Tokens that are looked at, or removed, before the loop serves others: a cluster may have hundreds of thousands."""
Submit = Callable[[Callable[[MetadataImage], Decision[int]]], Awaitable[int]]
MOST_KEPT = 10_000
"""Credentials of tokens that are kept: each costs a worker some 2 ms, once."""


def token_settings(config: BrokerConfig) -> TokenSettings | None:
    """The settings of tokens; None without a key, and then there are none."""
    key = config.optional_string("delegation.token.secret.key") or config.optional_string("delegation.token.master.key")
    if not key:
        return None
    return TokenSettings(
        key.encode(),
        config.integer("delegation.token.max.lifetime.ms"),
        config.integer("delegation.token.expiry.time.ms"),
        config.integer("odradek.delegation.token.max.per.owner"),
        config.integer("odradek.delegation.token.max.renewers"),
    )


class DelegationTokens:
    """An index of the tokens whose creation is published: nobody knows the secret of another one."""

    def __init__(self, current: CurrentConfig) -> None:
        self._current = current
        self._ids: dict[bytes, str] = {}
        self._secrets: dict[str, bytes] = {}

    def load(self, tokens: Iterable[str]) -> None:
        """Forget all tokens, and take those with these ids."""
        self._ids.clear()
        self._secrets.clear()
        self._add(tokens)

    def follow(self, changed: Mapping[str, DelegationTokenRecord | None]) -> None:
        """Take over changes of the image's tokens; None stands for a token that is gone."""
        for token_id, token in changed.items():
            if token is None and (secret := self._secrets.pop(token_id, None)) is not None:
                del self._ids[secret]
        self._add(token_id for token_id, token in changed.items() if token is not None)

    def _add(self, token_ids: Iterable[str]) -> None:
        settings = token_settings(self._current.config)
        if settings is None:
            return
        for token_id in token_ids:
            if token_id not in self._secrets:
                secret = self._secrets[token_id] = secret_of(settings.key, token_id)
                self._ids[secret] = token_id

    def id_of(self, secret: bytes) -> str | None:
        """The id of the token with this secret, None if there is none."""
        return self._ids.get(secret)

    async def remove_expired(self, image: MetadataImage, now_ms: int, submit: Submit) -> None:
        """Have those removed that have expired, some in each turn of the loop."""
        expired: list[str] = []
        for number, token in enumerate(image.tokens.values(), 1):
            if is_expired(token, now_ms):
                expired.append(token.token_id)
            if number % IN_A_TURN == 0:
                await asyncio.sleep(0)
        for start in range(0, len(expired), IN_A_TURN):
            some = expired[start : start + IN_A_TURN]
            await submit(lambda newest, some=some: decide_sweep(newest, some, now_ms))  # type: ignore[misc]


class Credentials:
    """The credentials in the metadata that `use` names: none before that, and others once a snapshot is restored."""

    def __init__(self, current: CurrentConfig, random: Random, wall_ms: Callable[[], int], workers: Workers) -> None:
        self._current = current
        self._random = random
        self._wall_ms = wall_ms
        self._workers = workers
        self._cache: MetadataCache | None = None
        self._of_tokens: dict[tuple[str, ScramMechanism], ScramCredential] = {}
        self._cluster = b""

    def use(self, cache: MetadataCache) -> None:
        self._cache = cache

    def name_cluster(self, cluster_id: str) -> None:
        """Begin to make salts: they are those of this cluster."""
        self._cluster = cluster_id.encode()

    def salt(self, mechanism: ScramMechanism, name: str) -> bytes:
        """The salt of a name that has none in the metadata: the same after a restart, and on each broker.

        Only who knows the cluster's id, and its secret key of tokens if it has one, can compute it.
        """
        tokens = token_settings(self._current.config)
        key = hmac.digest(b"" if tokens is None else tokens.key, b"salts of SCRAM " + self._cluster, "sha512")
        return hashlib.shake_256(key + f"{mechanism.sasl_name} {name}".encode("utf-8", "replace")).digest(SALT_BYTES)

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
        salt = self.salt(mechanism, token.token_id)
        record = await self._workers.call(lambda: stretched(token.token_id, mechanism, password, salt))
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
