"""The keys that tokens are signed with (JWKS), from a file or a server, read off the loop and kept.

They are read again after `refresh_ms`, and when a token names a key that is not among them, though not more often than
the back-off allows: tokens of strangers do not make this broker ask for keys all the time.
"""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any

import structlog
from jwt import PyJWK
from jwt.exceptions import PyJWTError

from storage.workers import Workers
from timing.clock import Clock

logger = structlog.get_logger(__name__)

TIMEOUT_S = 10
LARGEST_BYTES = 1 << 20
SIGNATURES = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Algorithms with a public key: `none` and those with a shared secret are never taken."""


class KeysError(Exception):
    """The keys cannot be read."""


@dataclass(frozen=True, slots=True)
class Refresh:
    """When keys are read again, in milliseconds."""

    refresh_ms: int
    backoff_ms: int
    backoff_max_ms: int


class Jwks:
    """The keys at `url`."""

    def __init__(self, url: str, refresh: Refresh, clock: Clock, workers: Workers) -> None:
        self._url = url
        self._refresh = refresh
        self._clock = clock
        self._workers = workers
        self._keys: Sequence[PyJWK] = ()
        self._read_ms: float | None = None
        self._failures = 0
        self._not_before_ms = 0.0
        self._reading: asyncio.Future[None] | None = None

    async def keys_for(self, key_id: str | None) -> Sequence[PyJWK]:
        """The keys that a token may be signed with: the one it names, else all. Raises KeysError."""
        now_ms = self._clock.monotonic_ms()
        if self._read_ms is None or now_ms - self._read_ms >= self._refresh.refresh_ms:
            await self._read()
        found = self._named(key_id)
        if not found and key_id is not None:
            await self._read()
            found = self._named(key_id)
        return found

    def _named(self, key_id: str | None) -> Sequence[PyJWK]:
        if key_id is None:
            return self._keys
        return [key for key in self._keys if key.key_id == key_id]

    async def _read(self) -> None:
        """Read the keys, once for all who wait. With keys at hand a failure is only logged."""
        if self._reading is None and self._clock.monotonic_ms() >= self._not_before_ms:
            self._reading = asyncio.ensure_future(self._read_now())
        if self._reading is not None:
            await asyncio.shield(self._reading)
        if self._read_ms is None:
            raise KeysError("the keys could not be read")

    async def _read_now(self) -> None:
        try:
            self._keys = await self._workers.call(lambda: read_keys(self._url))
            self._read_ms = self._clock.monotonic_ms()
            self._failures = 0
        except KeysError as error:
            logger.warning("keys of tokens cannot be read", url=self._url, error=str(error))
            self._failures += 1
        finally:
            wait_ms = min(self._refresh.backoff_ms << min(self._failures, 20), self._refresh.backoff_max_ms)
            self._not_before_ms = self._clock.monotonic_ms() + wait_ms
            self._reading = None


def read_keys(url: str) -> list[PyJWK]:
    """The keys, without those of unknown kinds. Blocking, any thread. Raises KeysError."""
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as response:  # the URL is the operator's
            content: bytes = response.read(LARGEST_BYTES + 1)
    except (OSError, ValueError, HTTPException) as error:
        raise KeysError(str(error) or type(error).__name__) from error
    if len(content) > LARGEST_BYTES:
        raise KeysError(f"more than {LARGEST_BYTES} bytes")
    try:
        listed = json.loads(content)["keys"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise KeysError("expected a JSON object with a list of keys") from error
    keys = [key for each in listed if (key := _key(each)) is not None] if isinstance(listed, list) else []
    if not keys:
        raise KeysError("there is no key for signatures among them")
    return keys


def _key(each: Any) -> PyJWK | None:
    if not isinstance(each, dict) or each.get("use", "sig") != "sig":
        return None
    try:
        key = PyJWK.from_dict(each)
    except (PyJWTError, ValueError, TypeError):
        return None
    return key if key.algorithm_name in SIGNATURES else None
