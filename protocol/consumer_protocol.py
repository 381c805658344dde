"""Messages of members of classic "consumer" groups to each other through the coordinator (Kafka's ConsumerProtocol).

Versions 0 to 3 of ConsumerProtocolSubscription and ConsumerProtocolAssignment. A later version is read as version 3,
with whose fields it must begin. The coordinator reads these when members of both protocols share a group (KIP-848).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Annotated, Any, NamedTuple

from .declared import Bytes, Int16, Int32, Placed, Stored, String, plain
from .primitives import INT16, DecodeError, LengthError
from .schema import layout

HIGHEST_VERSION = 3
NO_GENERATION = -1


@plain
class _Topic(NamedTuple):
    topic: String
    partitions: tuple[Int32, ...]


TopicPartitions = Annotated[Sequence[tuple[str, tuple[int, ...]]], Stored(tuple[_Topic, ...])]
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

    version: Int16
    topics: tuple[String, ...]
    user_data: Bytes | None
    owned: Annotated[TopicPartitions, Placed(since=1)]
    generation_id: Annotated[Int32, Placed(since=2)] = NO_GENERATION
    rack_id: Annotated[str | None, Placed(since=3), Stored(String | None, lambda rack: rack or None)] = None


class Assignment(NamedTuple):
    """The partitions a member gets; `version` is the one it was read as."""

    version: Int16
    partitions: TopicPartitions
    user_data: Bytes | None


def deserialize_version(data: bytes) -> int:
    """The version at the start, as written. Raises SchemaError if there is none."""
    if len(data) < INT16.size:
        raise SchemaError("Buffer underflow while parsing consumer protocol's header")
    version: int = INT16.unpack_from(data)[0]
    return version


def deserialize_topics(data: bytes) -> tuple[str, ...]:
    """The topics of a subscription read as version 0, whatever version it claims; the user data must be there too.

    Raises SchemaError or ImpossibleLengthError.
    """
    topics: tuple[str, ...] = _read(Subscription, 0, data).topics
    return topics


def deserialize_subscription(data: bytes) -> Subscription:
    """Raises SchemaError or its subclass ImpossibleLengthError. Bytes after the last field are ignored."""
    version = _known(deserialize_version(data), "subscription")
    return Subscription(version, *_read(Subscription, version, data)[1:])


def deserialize_assignment(data: bytes) -> Assignment:
    """Raises SchemaError or its subclass ImpossibleLengthError. Bytes after the last field are ignored."""
    version = _known(deserialize_version(data), "assignment")
    return Assignment(version, *_read(Assignment, version, data)[1:])


def serialize_assignment(version: int, partitions: Iterable[tuple[str, Sequence[int]]]) -> bytes:
    """The bytes, without user data, in the given version or the highest known. Raises SchemaError if it is negative."""
    known = _known(version, "assignment")
    out = bytearray()
    _writer(known)(out, (known, list(partitions), None))
    return bytes(out)


@cache
def _reader(cls: Any, version: int) -> Callable[[bytes, int], tuple[Any, int]]:
    from .reader import entity_reader

    return entity_reader(layout(cls, version, flexible=False), cls)


@cache
def _writer(version: int) -> Callable[[bytearray, Any], None]:
    from .writer import entity_writer

    return entity_writer(layout(Assignment, version, flexible=False), Assignment)


def _known(version: int, what: str) -> int:
    if version < 0:
        raise SchemaError(f"Unsupported {what} version: {version}")
    return min(version, HIGHEST_VERSION)


def _read(cls: Any, version: int, data: bytes) -> Any:
    try:
        return _reader(cls, version)(data, 0)[0]
    except LengthError as error:
        raise ImpossibleLengthError(str(error)) from error
    except DecodeError as error:
        raise SchemaError(str(error)) from error
