"""What members of classic "consumer" groups send each other through the coordinator (Kafka's ConsumerProtocol).

Versions 0 to 3 of ConsumerProtocolSubscription and ConsumerProtocolAssignment. A later version is read as version 3,
with whose fields it must begin. The coordinator reads these when members of both protocols share a group (KIP-848).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct, error
from typing import NamedTuple

from .java_strings import decode_utf8

HIGHEST_VERSION = 3
NO_GENERATION = -1

_INT16 = Struct(">h")
_INT32 = Struct(">i")
_NO_USER_DATA = _INT32.pack(-1)

TopicPartitions = list[tuple[str, tuple[int, ...]]]
"""Topics with partitions, in the order in which they were written; a topic may come twice."""


class SchemaError(Exception):
    """The bytes end too early or have a negative version (Kafka's SchemaException, with its messages)."""


class ImpossibleLengthError(SchemaError):
    """An impossible length: negative where null is not allowed, or more than is left. Kafka fails on it with an
    unexpected exception, and so answers UNKNOWN_SERVER_ERROR."""


class Subscription(NamedTuple):
    """The topics a member wants and the partitions it owns.

    `version` is the one it was read as; a negative `generation_id` means none.
    """

    version: int
    topics: list[str]
    user_data: bytes | None
    owned: TopicPartitions
    generation_id: int = NO_GENERATION
    rack_id: str | None = None


class Assignment(NamedTuple):
    """The partitions a member gets; `version` is the one it was read as."""

    version: int
    partitions: TopicPartitions
    user_data: bytes | None


def deserialize_version(data: bytes) -> int:
    """The version at the start, as written. Raises SchemaError if there is none."""
    if len(data) < _INT16.size:
        raise SchemaError("Buffer underflow while parsing consumer protocol's header")
    return _Reader(data).int16()


def deserialize_topics(data: bytes) -> list[str]:
    """The topics of a subscription read as version 0, whatever version it claims; the user data must be there too.

    Raises SchemaError or ImpossibleLengthError.
    """
    reader = _Reader(data)
    reader.int16()
    topics = reader.topics()
    reader.nullable_bytes()
    return topics


def deserialize_subscription(data: bytes) -> Subscription:
    """Raises SchemaError or its subclass ImpossibleLengthError. Bytes after the last field are ignored."""
    reader = _Reader(data)
    version = _known(reader.int16(), "subscription")
    topics = reader.topics()
    user_data = reader.nullable_bytes()
    return Subscription(
        version,
        topics,
        user_data,
        reader.topic_partitions() if version >= 1 else [],
        reader.int32() if version >= 2 else NO_GENERATION,
        (reader.nullable_string() or None) if version >= 3 else None,
    )


def deserialize_assignment(data: bytes) -> Assignment:
    """Raises SchemaError or its subclass ImpossibleLengthError. Bytes after the last field are ignored."""
    reader = _Reader(data)
    version = _known(reader.int16(), "assignment")
    return Assignment(version, reader.topic_partitions(), reader.nullable_bytes())


def serialize_assignment(version: int, partitions: Iterable[tuple[str, Sequence[int]]]) -> bytes:
    """The bytes, without user data, in the given version or the highest known. Raises SchemaError if it is negative."""
    topics = []
    for topic, indexes in partitions:
        name = topic.encode()
        topics.append(_INT16.pack(len(name)) + name + _INT32.pack(len(indexes)) + b"".join(map(_INT32.pack, indexes)))
    return _INT16.pack(_known(version, "assignment")) + _INT32.pack(len(topics)) + b"".join(topics) + _NO_USER_DATA


def _known(version: int, what: str) -> int:
    if version < 0:
        raise SchemaError(f"Unsupported {what} version: {version}")
    return min(version, HIGHEST_VERSION)


class _Reader:
    __slots__ = ("_data", "_position")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def int16(self) -> int:
        return self._fixed(_INT16)

    def int32(self) -> int:
        return self._fixed(_INT32)

    def string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise ImpossibleLengthError("null where a string must be")
        return text

    def nullable_string(self) -> str | None:
        size = self.int16()
        return None if size < 0 else decode_utf8(self._take(size))

    def nullable_bytes(self) -> bytes | None:
        size = self.int32()
        return None if size < 0 else self._take(size)

    def array_size(self) -> int:
        """The size of an array; never more than the bytes left, as an element takes at least one."""
        size = self.int32()
        if not 0 <= size <= len(self._data) - self._position:
            raise ImpossibleLengthError(f"{size} elements in {len(self._data) - self._position} bytes")
        return size

    def topics(self) -> list[str]:
        return [self.string() for _ in range(self.array_size())]

    def topic_partitions(self) -> TopicPartitions:
        return [
            (self.string(), tuple(self.int32() for _ in range(self.array_size()))) for _ in range(self.array_size())
        ]

    def _fixed(self, kind: Struct) -> int:
        try:
            (value,) = kind.unpack_from(self._data, self._position)
        except error as cut_short:
            raise SchemaError(f"nothing is left at byte {self._position} of {len(self._data)}") from cut_short
        self._position += kind.size
        return int(value)

    def _take(self, size: int) -> bytes:
        end = self._position + size
        if end > len(self._data):
            raise ImpossibleLengthError(f"{size} bytes wanted, {len(self._data) - self._position} are left")
        taken = self._data[self._position : end]
        self._position = end
        return taken
