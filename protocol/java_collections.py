"""The iteration order of Java's hash maps, for the few places that still imitate it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TypeVar
from uuid import UUID

from .java_strings import java_string_hash

Key = TypeVar("Key", str, UUID, int)
Name = TypeVar("Name", str, int)
T = TypeVar("T")

LEAST_SLOTS = 2
"""The initial slots of a `TimelineHashMap` with an expected size of 0."""

_INT_MASK = 0xFFFFFFFF
_LONG_MASK = 0xFFFFFFFFFFFFFFFF
_FIBONACCI = -7046029254386353131
_LONG_CHAIN = 8
_ENOUGH_BUCKETS = 64
_LONGEST_KEPT = 256
"""The length in characters up to which a key's hash is cached: clients may send long keys."""


def in_java_order(keys: Collection[Key], capacity: int = 16) -> list[Key]:
    """The order of a `java.util.HashMap` into which these keys were put in this order, which each bucket keeps.

    Not for maps that turn long chains into trees (nine keys in one of 64 buckets or more).
    """
    if len(keys) < 2:
        return list(keys)
    buckets = java_buckets(capacity)
    if len(keys) > _LONG_CHAIN and buckets < _ENOUGH_BUCKETS:
        buckets = _split_chains([_spread(key) for key in keys], buckets)
    while len(keys) > buckets * 3 // 4:
        buckets *= 2
    return in_buckets(keys, buckets)


def in_buckets(keys: Iterable[Key], buckets: int) -> list[Key]:
    """The order of a `java.util.HashMap` with this many buckets; keys in one bucket keep their order here."""
    return sorted(keys, key=lambda key: _spread(key) & buckets - 1)


def in_bucket_order(keys: Collection[T], hash_of: Callable[[T], int], capacity: int = 16) -> list[T]:
    """As `in_java_order`, for keys with any `hashCode()`; without long chains."""
    buckets = java_buckets(capacity)
    while len(keys) > buckets * 3 // 4:
        buckets *= 2
    return sorted(keys, key=lambda key: _spread(hash_of(key)) & buckets - 1)


def java_buckets(capacity: int) -> int:
    """The initial number of buckets of a HashMap with this initial capacity."""
    return 1 << max(capacity - 1, 0).bit_length()


def _split_chains(spread: Sequence[int], buckets: int) -> int:
    """The number of buckets after keys with these hashes were put in one by one; counting stops at `_ENOUGH_BUCKETS`.

    Java doubles the table when it is three quarters full, and while it is small also for a ninth key in one bucket.
    """
    chains = [0] * buckets
    for count, code in enumerate(spread):
        before = buckets
        if chains[code & buckets - 1] >= _LONG_CHAIN and buckets < _ENOUGH_BUCKETS:
            buckets *= 2
        if count >= buckets * 3 // 4:
            buckets *= 2
        if buckets >= _ENOUGH_BUCKETS:
            break
        if buckets != before:
            chains = [0] * buckets
            for earlier in spread[:count]:
                chains[earlier & buckets - 1] += 1
        chains[code & buckets - 1] += 1
    return buckets


def in_timeline_order(keys: Sequence[Name], slots: int) -> list[Name]:
    """The order of Kafka's `TimelineHashMap` with this many slots, to which the keys were added in this order.

    It goes slot by slot, and within a slot from the key added last to the first.
    """
    shift = 65 - slots.bit_length()
    latest_first = keys[::-1]
    return sorted(latest_first, key=lambda key: (_name_hash(key) * _FIBONACCI & _LONG_MASK) >> shift)


def timeline_slots(slots: int, keys: int) -> int:
    """The slots of a `TimelineHashMap` after a put, given its slots and keys before the put."""
    return slots * 2 if (keys + 1) * 3 > slots * 4 else slots


def java_map_hash(entries: Mapping[str, str | None]) -> int:
    """Java's `Map.hashCode()`, unsigned; that of null is 0."""
    hashes = (
        java_string_hash(key) ^ (0 if value is None else java_string_hash(value)) for key, value in entries.items()
    )
    return sum(hashes) & _INT_MASK


def _spread(key: str | UUID | int) -> int:
    """A key's hashCode() as HashMap folds it; UUID is Kafka's Uuid."""
    short = not isinstance(key, str) or len(key) <= _LONGEST_KEPT
    return _remembered(key) if short else _folded(key)


def _folded(key: str | UUID | int) -> int:
    code = (key if isinstance(key, int) else _hash_code(key)) & _INT_MASK
    return code ^ code >> 16


_remembered = lru_cache(maxsize=10_000)(_folded)


def _name_hash(key: str | int) -> int:
    return key if isinstance(key, int) else _string_hash(key)


def _string_hash(key: str) -> int:
    return _remembered_hash(key) if len(key) <= _LONGEST_KEPT else java_string_hash(key)


_remembered_hash = lru_cache(maxsize=10_000)(java_string_hash)


def _hash_code(key: str | UUID) -> int:
    if isinstance(key, str):
        return java_string_hash(key)
    both = key.int >> 64 ^ key.int & _LONG_MASK
    return both >> 32 ^ both & _INT_MASK
