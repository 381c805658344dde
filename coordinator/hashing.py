"""Which partition a group or a transactional id belongs to."""

from __future__ import annotations

from functools import lru_cache

from protocol.java_strings import java_string_hash

_INT_MIN = -(1 << 31)


_LONGEST_KEPT = 256
"""The longest key, in characters, whose hash is cached: clients may send long ones."""


def partition_for(key: str, partitions: int) -> int:
    """`Utils.abs(key.hashCode()) % partitions`, whose abs of -2^31 is 0."""
    return (_remembered(key) if len(key) <= _LONGEST_KEPT else _positive_hash(key)) % partitions


def _positive_hash(key: str) -> int:
    hashed = java_string_hash(key)
    return 0 if hashed == _INT_MIN else abs(hashed)


_remembered = lru_cache(maxsize=10_000)(_positive_hash)
