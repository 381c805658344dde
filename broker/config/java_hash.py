"""The order in which Java's and Scala's hash maps hand out texts, which shows in Kafka's answers."""

from __future__ import annotations

from collections.abc import Collection


def in_hash_order(names: Collection[str]) -> list[str]:
    """The order of a `java.util.HashMap` or `mutable.HashMap` with these keys: by bucket, and by hash within one."""
    buckets = 16
    while len(names) > buckets * 3 // 4:
        buckets *= 2

    def position(name: str) -> tuple[int, int]:
        code = _java_hash(name)
        code ^= code >> 16
        return code & (buckets - 1), code - (1 << 32) if code >> 31 else code

    return sorted(names, key=position)


def _java_hash(text: str) -> int:
    """Java's `String.hashCode`, unsigned."""
    code = 0
    for unit in text.encode("utf-16-be").hex(" ", 2).split():
        code = (code * 31 + int(unit, 16)) & 0xFFFFFFFF
    return code
