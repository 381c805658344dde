"""Parts of keys and values that the records of several kinds of groups share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar
from uuid import UUID

from ..primitives import INT16, INT32
from . import fields
from .consumer_group_values import Partitions
from .fields import NO_TAGS, FieldReader

K = TypeVar("K", bound=tuple[str, ...])

VERSION_0 = INT16.pack(0)


def key_encoder(number: int) -> Callable[[tuple[str, ...]], bytes]:
    start = INT16.pack(number)
    return lambda key: start + b"".join(map(fields.string, key))


def one_part(kind: Callable[[str], K]) -> Callable[[bytes], K]:
    return lambda data: kind(FieldReader(data, 2).string())


def two_parts(kind: Callable[[str, str], K]) -> Callable[[bytes], K]:
    def read(data: bytes) -> K:
        reader = FieldReader(data, 2)
        return kind(reader.string(), reader.string())

    return read


def value_reader(value: bytes) -> FieldReader:
    return FieldReader(value, 2, flexible=True)


def partitions(partitions: Partitions) -> bytes:
    return fields.compact_array(
        [
            topic_id.bytes + fields.compact_array([INT32.pack(index) for index in sorted(indexes)]) + NO_TAGS
            for topic_id, indexes in partitions.items()
        ]
    )


def read_partitions(reader: FieldReader) -> Partitions:
    return dict(_read_topic(reader) for _ in range(reader.array_size()))


def _read_topic(reader: FieldReader) -> tuple[UUID, frozenset[int]]:
    topic_id = reader.uuid()
    indexes = frozenset(reader.int32() for _ in range(reader.array_size()))
    reader.tags()
    return topic_id, indexes


def strings(texts: tuple[str, ...]) -> bytes:
    return fields.compact_array([fields.compact_string(text) for text in texts])
