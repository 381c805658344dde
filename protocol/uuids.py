"""UUIDs on the wire: 16 bytes, most significant first; text as Kafka writes it (`org.apache.kafka.common.Uuid`)."""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from functools import lru_cache
from random import Random
from uuid import UUID

ZERO = UUID(int=0)

_TEXT = re.compile(r"[A-Za-z0-9_-]{22}(==)?")


def random_uuid(rng: Random) -> UUID:
    """A version 4 UUID whose text does not start with `-`, which tools would mistake for an option (Uuid.randomUuid).

    Kafka's reserved ids, the first hundred, are never version 4.
    """
    while True:
        candidate = UUID(int=rng.getrandbits(128), version=4)
        if not to_text(candidate).startswith("-"):
            return candidate


@lru_cache(maxsize=4096)
def from_bytes(raw: bytes) -> UUID:
    """The UUID of 16 bytes. Cached, as the same few topic ids come with every request and UUID() is slow."""
    return UUID(bytes=raw)


def to_text(value: UUID) -> str:
    """22 characters of URL-safe base64 without padding."""
    return urlsafe_b64encode(value.bytes)[:22].decode()


def from_text(text: str) -> UUID:
    """The UUID of 16 bytes in URL-safe base64, padded or not (Uuid.fromString). Raises ValueError for other text."""
    if not _TEXT.fullmatch(text):
        raise ValueError(f"{text[:24]!r} is no UUID")
    return UUID(bytes=urlsafe_b64decode(text[:22] + "=="))
