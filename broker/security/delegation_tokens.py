"""The settings of delegation tokens.

The delegation tokens in the metadata, found by their secrets, and the removal of those that have expired.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping

from broker.config.broker_config import BrokerConfig, CurrentConfig
from controller.decision import Decision
from controller.delegation_tokens import TokenSettings, decide_sweep, is_expired, secret_of
from metadata.image import MetadataImage
from protocol.metadata.credentials import DelegationTokenRecord


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


IN_A_TURN = 1000
"""Tokens that are looked at, or removed, before the loop serves others: a cluster may have hundreds of thousands."""

Submit = Callable[[Callable[[MetadataImage], Decision[int]]], Awaitable[int]]


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
