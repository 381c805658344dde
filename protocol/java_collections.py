"""The iteration order of Java's and Scala's hash maps and sets, which shows in Kafka's answers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TypeVar
from uuid import UUID

from .java_strings import java_string_hash

Key = TypeVar("Key", str, UUID, int)
Name = TypeVar("Name", str, int)
TrieKey = TypeVar("TrieKey", str, UUID, tuple[str, int])
T = TypeVar("T")

LEAST_SLOTS = 2
"""The initial slots of a `TimelineHashMap` with an expected size of 0."""

_INT_MASK = 0xFFFFFFFF
_LONG_MASK = 0xFFFFFFFFFFFFFFFF
_FIBONACCI = -7046029254386353131
_HASH_BITS = 32
_LONG_CHAIN = 8
_ENOUGH_BUCKETS = 64
_SMALL_SET = 4
_LONGEST_KEPT = 256
"""The length in characters up to which a key's hash is cached: clients may send long keys."""


def in_hash_order(names: Collection[str]) -> list[str]:
    """The order of a `mutable.HashMap` or `HashSet` with these keys: by bucket, and by hash within one."""
    return in_mutable_set_order(sorted(names), java_string_hash)


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


def in_concurrent_order(keys: Iterable[T], hash_of: Callable[[T], int], most: int = 0) -> list[T]:
    """The order of a `java.util.concurrent.ConcurrentHashMap` into which these keys were put in this order.

    It never shrinks: `most` is how many keys it once had, if these are not all.
    """
    buckets = 16
    chains: dict[int, list[tuple[int, T]]] = {}
    for count, key in enumerate(keys, 1):
        code = _spread(hash_of(key))
        chains.setdefault(code & buckets - 1, []).append((code, key))
        if count >= buckets * 3 // 4:
            chains = _doubled(chains, buckets)
            buckets *= 2
    while most >= buckets * 3 // 4:
        chains = _doubled(chains, buckets)
        buckets *= 2
    return [key for _, chain in sorted(chains.items()) for _, key in chain]


def in_properties_order(names: Collection[str]) -> list[str]:
    """The order of `java.util.Properties` filled from a `HashMap`, into which these keys were put in this order."""
    return in_concurrent_order(in_java_order(names), java_string_hash)


def _doubled(chains: dict[int, list[tuple[int, T]]], buckets: int) -> dict[int, list[tuple[int, T]]]:
    return {place: part for chain in chains.values() for place, part in _parts(chain, buckets)}


def _parts(chain: list[tuple[int, T]], bit: int) -> Iterator[tuple[int, list[tuple[int, T]]]]:
    """The chains, one or two, into which this bit of the hash splits a bucket's chain, each with its new bucket.

    The run of keys at the end that go the same way keeps its order; the keys before it are prepended one by one.
    """
    run = len(chain) - 1
    while run and chain[run - 1][0] & bit == chain[run][0] & bit:
        run -= 1
    for side in (0, bit):
        tail = chain[run:] if chain[run][0] & bit == side else []
        part = [one for one in reversed(chain[:run]) if one[0] & bit == side] + tail
        if part:
            yield part[0][0] & 2 * bit - 1, part


def in_computed_order(calls: Iterable[T], hash_of: Callable[[T], int]) -> list[T]:
    """The order of a `java.util.HashMap` after `computeIfAbsent` of these keys, one call after the other.

    New keys come first in their bucket, and the table is doubled at the beginning of a call.
    """
    buckets = 16
    keys: dict[T, None] = {}
    for key in calls:
        if len(keys) > buckets * 3 // 4:
            buckets *= 2
        keys.setdefault(key)
    newest_first = list(keys)[::-1]
    return sorted(newest_first, key=lambda key: _spread(hash_of(key)) & buckets - 1)


def in_java_copy_order(keys: Collection[Key], size: int | None = None) -> list[Key]:
    """The order of a `java.util.HashSet` made from a collection of this `size()`, by default the number of keys."""
    return in_java_order(keys, java_copy_capacity(len(keys) if size is None else size))


def java_copy_capacity(size: int) -> int:
    """The initial capacity of a `java.util.HashSet` made of a collection of this size."""
    return max(int(size / 0.75) + 1, 16)


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


def in_grown_timeline_order(keys: Sequence[Name]) -> list[Name]:
    """The order of a `TimelineHashMap` of expected size 0, from which nothing was removed."""
    slots = LEAST_SLOTS
    for count in range(len(keys)):
        slots = timeline_slots(slots, count)
    return in_timeline_order(keys, slots)


def timeline_slots(slots: int, keys: int) -> int:
    """The slots of a `TimelineHashMap` after a put, given its slots and keys before the put."""
    return slots * 2 if (keys + 1) * 3 > slots * 4 else slots


def in_scala_groups(partitions: Collection[tuple[str, int]]) -> list[tuple[str, list[int]]]:
    """The order of a `mutable.HashMap` keyed by (topic, partition) and filled in this order, then grouped by topic."""
    by_topic: dict[str, list[tuple[str, int]]] = {}
    for partition in in_mutable_order(partitions):
        by_topic.setdefault(partition[0], []).append(partition)
    return [(name, [index for _, index in in_mutable_order(by_topic[name])]) for name in in_trie_order([*by_topic])]


def in_immutable_groups(partitions: Collection[tuple[str, int]]) -> list[tuple[str, list[int]]]:
    """The order of `in_scala_groups` if that map is then added to an empty `immutable.Map`."""
    by_topic: dict[str, list[tuple[str, int]]] = {}
    for partition in in_set_order(in_mutable_order(partitions)):
        by_topic.setdefault(partition[0], []).append(partition)
    total = len(partitions)
    return [(name, [index for _, index in in_set_order(by_topic[name], total)]) for name in in_trie_order([*by_topic])]


def in_mutable_order(partitions: Collection[tuple[str, int]]) -> list[tuple[str, int]]:
    """The order of Scala's `mutable.HashMap`, which grows one entry earlier than Java's."""
    return in_mutable_set_order(partitions, partition_hash)


def in_mutable_set_order(keys: Collection[T], hash_of: Callable[[T], int]) -> list[T]:
    """The order of a `mutable.HashSet` to which these keys were added one by one, with any `hashCode()`."""
    buckets = 16
    while len(keys) >= buckets * 3 // 4:
        buckets *= 2
    return _in_sorted_chains(keys, buckets, hash_of)


def in_concatenated_order(partitions: Collection[tuple[str, int]], total: int) -> list[tuple[str, int]]:
    """The order of what is left of a `mutable.HashSet` made by `++` from two collections of `total` elements in all."""
    return _in_sorted_chains(partitions, 1 << max((total + 1) * 4 // 3 - 1, 4).bit_length(), partition_hash)


def _in_sorted_chains(keys: Collection[T], buckets: int, hash_of: Callable[[T], int]) -> list[T]:
    """The order of Scala's mutable collections, which keep their chains sorted by hash."""

    def place(key: T) -> tuple[int, int]:
        code = _folded(hash_of(key))
        return code & buckets - 1, _signed(code)

    return sorted(keys, key=place)


def partition_hash(partition: tuple[str, int]) -> int:
    """Kafka's `TopicPartition.hashCode()`, without its overflow."""
    return 31 * (31 + partition[1]) + _string_hash(partition[0])


def java_numbers_hash(numbers: Iterable[int], start: int = 1) -> int:
    """Java's `List.hashCode()` of numbers, unsigned; of a class's fields, which Kafka's messages begin with 0."""
    for number in numbers:
        start = 31 * start + number & _INT_MASK
    return start


def java_map_hash(entries: Mapping[str, str | None]) -> int:
    """Java's `Map.hashCode()`, unsigned; that of null is 0."""
    hashes = (
        java_string_hash(key) ^ (0 if value is None else java_string_hash(value)) for key, value in entries.items()
    )
    return sum(hashes) & _INT_MASK


def scala_set(names: Sequence[str]) -> str:
    """`toString` of an `immutable.Set` filled in this order."""
    kind = "Set" if len(names) <= _SMALL_SET else "HashSet"
    return f"{kind}({', '.join(in_set_order(names))})"


def in_set_order(keys: Sequence[TrieKey], of: int | None = None) -> list[TrieKey]:
    """The order of an `immutable.Set` filled in this order, or of a filtered one that had `of` elements before.

    A set of up to four elements keeps their order; a larger one is a HashSet, and remains one when filtered.
    """
    return list(keys) if (len(keys) if of is None else of) <= _SMALL_SET else in_trie_order(keys)


def in_trie_order(names: Sequence[TrieKey], shift: int = 0) -> list[TrieKey]:
    """The order of an `immutable.HashMap` or `HashSet`.

    A node has 32 slots, selected by five bits of the hash. Slots with a single name come first, then the child nodes.
    Names with the same hash share the last node, in insertion order.
    """
    if shift >= _HASH_BITS:
        return list(names)
    places: dict[int, list[TrieKey]] = {}
    for name in names:
        places.setdefault(_improved(name) >> shift & 31, []).append(name)
    found = [there for _, there in sorted(places.items())]
    below = [name for there in found if len(there) > 1 for name in in_trie_order(there, shift + 5)]
    return [there[0] for there in found if len(there) == 1] + below


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


def _signed(code: int) -> int:
    return code - (1 << 32) if code >> 31 else code


def _hash_code(key: str | UUID) -> int:
    if isinstance(key, str):
        return java_string_hash(key)
    both = key.int >> 64 ^ key.int & _LONG_MASK
    return both >> 32 ^ both & _INT_MASK


def _improved(key: str | UUID | tuple[str, int]) -> int:
    """Scala's `Hashing.improve`."""
    code = (partition_hash(key) if isinstance(key, tuple) else _hash_code(key)) & _INT_MASK
    code = (code + ~(code << 9)) & _INT_MASK
    code ^= code >> 14
    code = (code + (code << 4)) & _INT_MASK
    return code ^ code >> 10
