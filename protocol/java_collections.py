"""The order in which Java's and Scala's hash maps and sets hand out texts, which shows in Kafka's answers."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from protocol.java_strings import java_string_hash

_INT_MASK = 0xFFFFFFFF


def in_hash_order(names: Collection[str]) -> list[str]:
    """The order of a `mutable.HashMap` with these keys: by bucket, and by hash within one."""
    ordered = sorted(names, key=lambda name: _signed(_spread(name)))
    return in_java_order(ordered)


def in_java_order(names: Collection[str]) -> list[str]:
    """The order of a `java.util.HashMap` into which these keys were put in this order, which stays within a bucket."""
    buckets = 16
    while len(names) > buckets * 3 // 4:
        buckets *= 2
    return sorted(names, key=lambda name: _spread(name) & (buckets - 1))


def scala_set(names: Sequence[str]) -> str:
    """How an `immutable.Set` into which these were put in this order shows itself: above four it is a HashSet."""
    return f"Set({', '.join(names)})" if len(names) <= 4 else f"HashSet({', '.join(_in_trie_order(names))})"


def _in_trie_order(names: Sequence[str], shift: int = 0) -> list[str]:
    """A node has 32 places, by five bits of the hash: first come those with one name, then the nodes below."""
    places: dict[int, list[str]] = {}
    for name in names:
        places.setdefault(_improved(name) >> shift & 31, []).append(name)
    found = [there for _, there in sorted(places.items())]
    below = [name for there in found if len(there) > 1 for name in _in_trie_order(there, shift + 5)]
    return [there[0] for there in found if len(there) == 1] + below


def _spread(text: str) -> int:
    code = java_string_hash(text) & _INT_MASK
    return code ^ code >> 16


def _signed(code: int) -> int:
    return code - (1 << 32) if code >> 31 else code


def _improved(text: str) -> int:
    """Scala's `Hashing.improve`."""
    code = java_string_hash(text) & _INT_MASK
    code = (code + ~(code << 9)) & _INT_MASK
    code ^= code >> 14
    code = (code + (code << 4)) & _INT_MASK
    return code ^ code >> 10
