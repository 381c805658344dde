"""What modern groups know of topics (Kafka's MetadataImage), and the hash by which a group notices that one changed.

The hash (KIP-1101, Kafka's coordinator.group.Utils) is in the record of the group, so it must be Kafka's to the bit:
XXH3, 64 bits, over what hash4j streams into it. That is little-endian throughout; a string is its UTF-16 units followed
by their number (HashStream64.putString).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from struct import Struct
from typing import NamedTuple, Protocol
from uuid import UUID

from xxhash import xxh3_64_intdigest

from protocol.java_strings import utf16

_MAGIC = b"\x00"
_INT32 = Struct("<i")
_INT64 = Struct("<q")
_SIGN = 1 << 63


class TopicImage(NamedTuple):
    """A topic; `racks` are those of each partition's replicas, sorted; replicas without a rack add none."""

    name: str
    id: UUID
    racks: Sequence[Sequence[str]]

    @property
    def partition_count(self) -> int:
        return len(self.racks)


class TopicsPort(Protocol):
    """The current topics."""

    @property
    def version(self) -> int:
        """A number that rises with every change of a topic and never falls, even across restarts."""

    @property
    def newest(self) -> int:
        """The version at which the last topic was created; at first, the version at startup."""

    def by_name(self, name: str) -> TopicImage | None: ...

    def by_id(self, topic_id: UUID) -> TopicImage | None: ...

    def names(self) -> Iterable[str]:
        """Every topic's name, internal ones included."""


def topic_hash(image: TopicImage) -> int:
    """Kafka's hash of a topic, a signed long: over its id, its name and the racks of each partition."""
    parts = [
        _MAGIC,
        image.id.bytes[7::-1],
        image.id.bytes[:7:-1],
        _string(image.name),
        _INT32.pack(image.partition_count),
    ]
    for index, racks in enumerate(image.racks):
        parts.append(_INT32.pack(index))
        for rack in racks:
            encoded = _string(rack)
            parts += (encoded[-4:], encoded)
    return _signed(b"".join(parts))


def group_hash(hashes: Mapping[str, int]) -> int:
    """Kafka's hash of a group's topics, a signed long, from their hashes by name; 0 without topics."""
    if not hashes:
        return 0
    return _signed(b"".join(_INT64.pack(hashes[name]) for name in sorted(hashes)))


def _string(text: str) -> bytes:
    units = utf16(text)
    return units + _INT32.pack(len(units) // 2)


def _signed(data: bytes) -> int:
    return (xxh3_64_intdigest(data) ^ _SIGN) - _SIGN
