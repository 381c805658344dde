"""How the records of the coordinators' topics are declared (Kafka's CoordinatorRecordSerde), and types they share.

Keys and values are named tuples, declared as `protocol.declared` says; their codecs are generated when first needed.
What their bytes are held to are Kafka's schemas (`group-coordinator/src/main/resources/common/message` and its like).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Annotated, Any, Generic, NamedTuple, TypeVar
from uuid import UUID

from ..declared import Int32, Stored, String, Uuid, plain
from ..primitives import INT16
from ..schema import EntityClass, layout

K = TypeVar("K")
V = TypeVar("V")

Int32Set = Annotated[frozenset[int], Stored(tuple[Int32, ...], frozenset, sorted)]


@plain
class _Pair(NamedTuple):
    key: String
    value: String


Pairs = Annotated[tuple[tuple[str, str], ...], Stored(tuple[_Pair, ...])]


@plain
class _TopicPartitions(NamedTuple):
    topic_id: Uuid
    partitions: Int32Set


Partitions = Annotated[Mapping[UUID, frozenset[int]], Stored(tuple[_TopicPartitions, ...], dict, Mapping.items)]
"""Partition indexes by topic id."""


class GroupKey(NamedTuple):
    """The group that a record belongs to."""

    group: String


class MemberKey(NamedTuple):
    """The group and the member that a record belongs to."""

    group: String
    member_id: String


class RecordSchema(Generic[K, V]):
    """A record type. Keys and values start with an int16: the key's is the type, the value's its own version.

    `ids` are the key's numbers that mean this type; the last one is written. `key` and `value` are the classes, or a
    `Stored` for what is kept as something else. Values of versions 0 to `highest` are read, which are flexible from
    `flexible` on; `written` is the version that Kafka 4.4 would choose. `encode_key` and `encode_value` are encoders
    by hand, for records where each microsecond counts.
    """

    def __init__(
        self,
        name: str,
        ids: tuple[int, ...],
        key: type[K] | Stored,
        value: type[V] | Stored,
        *,
        highest: int = 0,
        flexible: int = 0,
        written: int = 0,
        encode_key: Callable[[K], bytes] | None = None,
        encode_value: Callable[[V], bytes] | None = None,
    ) -> None:
        self.name = name
        self.ids = ids
        self._key = key if isinstance(key, Stored) else Stored(key)
        self._value = value if isinstance(value, Stored) else Stored(value)
        self._highest = highest
        self._flexible = flexible
        self._written = written
        self._encode_key_by_hand = encode_key
        self._encode_value_by_hand = encode_value
        self._read_value: dict[int, Callable[[bytes, int], tuple[Any, int]]] = {}

    @cached_property
    def encode_key(self) -> Callable[[K], bytes]:
        """`(key) -> bytes`."""
        key_layout = layout(self._key.wire, 0, flexible=False)
        return self._encode_key_by_hand or _encoder(self._key, key_layout, self.ids[-1])

    @cached_property
    def encode_value(self) -> Callable[[V], bytes]:
        """`(value) -> bytes`, in the version that is written."""
        return self._encode_value_by_hand or _encoder(self._value, self._layout(self._written), self._written)

    def decode_key(self, data: bytes) -> K:
        """Raises ValueError for bytes that are no key of this type."""
        try:
            key: K = self._read_key(data, INT16.size)[0]
        except ValueError as error:
            raise ValueError(f"malformed key of a {self.name} record: {error}") from error
        return key

    def decode_value(self, data: bytes) -> V:
        """Raises ValueError for bytes that are no value of this type, or of an unknown version."""
        try:
            version = record_id(data)
            read = self._read_value.get(version) or self._reader(version)
            value: V = read(data, INT16.size)[0]
        except (struct.error, ValueError) as error:
            raise ValueError(f"malformed value of a {self.name} record: {error}") from error
        return value

    @cached_property
    def _read_key(self) -> Callable[[bytes, int], tuple[Any, int]]:
        return _reader(self._key, layout(self._key.wire, 0, flexible=False))

    def _reader(self, version: int) -> Callable[[bytes, int], tuple[Any, int]]:
        if not 0 <= version <= self._highest:
            raise ValueError(f"version {version} is not known")
        self._read_value[version] = read = _reader(self._value, self._layout(version))
        return read

    def _layout(self, version: int) -> EntityClass:
        return layout(self._value.wire, version, flexible=version >= self._flexible)


def _encoder(stored: Stored, written: EntityClass, number: int) -> Callable[[Any], bytes]:
    from ..writer import record_encoder

    encode, dump = record_encoder(written, stored.wire, number), stored.dump
    return encode if dump is None else lambda value: encode(dump(value))


def _reader(stored: Stored, read_as: EntityClass) -> Callable[[bytes, int], tuple[Any, int]]:
    from ..reader import entity_reader

    read, load = entity_reader(read_as, stored.wire), stored.load
    if load is None:
        return read

    def read_and_load(data: bytes, pos: int) -> tuple[Any, int]:
        value, pos = read(data, pos)
        return load(value), pos

    return read_and_load


def string(text: str) -> bytes:
    """A string in a key. Raises struct.error above 32,767 bytes."""
    data = text.encode()
    return INT16.pack(len(data)) + data


def record_id(key: bytes) -> int:
    """The int16 at the start. Raises struct.error if there is none."""
    number: int = INT16.unpack_from(key)[0]
    return number
