"""Where a group or a transactional id lives."""

from __future__ import annotations

from functools import lru_cache

from protocol.java_strings import java_string_hash

_INT_MIN = -(1 << 31)


@lru_cache(maxsize=10_000)
def partition_for(key: str, partitions: int) -> int:
    """``Utils.abs(key.hashCode()) % partitions``, whose abs of -2^31 is 0."""
    hashed = java_string_hash(key)
    return (0 if hashed == _INT_MIN else abs(hashed)) % partitions
