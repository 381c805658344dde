"""The record of `__transaction_state`, in all of Kafka's versions (TransactionLogKey, TransactionLogValue).

Kafka 4.4 writes value version 1, the flexible one, from transaction.version 1 on, and version 0 below. Tools that read
the records themselves know only version 0 (Flink's KafkaTransactionLog).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from ..primitives import INT16, INT32, INT64
from ..records.batch import NO_PRODUCER_ID, NO_TIMESTAMP
from . import fields
from .fields import NO_TAGS, FieldReader
from .record_schema import RecordSchema

TRANSACTION_LOG_ID = 0


_KEY_ID = INT16.pack(TRANSACTION_LOG_ID)
_VALUE_START = struct.Struct(">hqhib")
_VALUE_END = struct.Struct(">qq")
_NULL_ARRAY = b"\x00"
_NULL_ARRAY_0 = INT32.pack(-1)

_PREVIOUS_PRODUCER_ID_TAG = 0
_NEXT_PRODUCER_ID_TAG = 1
_CLIENT_VERSION_TAG = 2


class TransactionLogValue(NamedTuple):
    """One transactional id.

    `status` is the state's number; `partitions` are (topic, indexes), None in states that have none. Times are
    milliseconds; -1 stands for no time and no producer id. `client_version` is the transaction.version that its
    client used.
    """

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    status: int
    partitions: tuple[tuple[str, tuple[int, ...]], ...] | None
    last_update_ms: int
    start_ms: int = NO_TIMESTAMP
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    client_version: int = 0


new_log_value: Callable[[tuple[Any, ...]], TransactionLogValue] = partial(tuple.__new__, TransactionLogValue)
"""Makes one from all its fields, without a Python-level call."""


def _encode_key(transactional_id: str) -> bytes:
    return _KEY_ID + fields.string(transactional_id)


def _read_key(data: bytes) -> str:
    return FieldReader(data, 2).string()


def _encode_value(value: TransactionLogValue) -> bytes:
    return b"".join(
        (
            _VALUE_START.pack(1, value.producer_id, value.producer_epoch, value.timeout_ms, value.status),
            _NULL_ARRAY if value.partitions is None else _encode_partitions(value.partitions),
            _VALUE_END.pack(value.last_update_ms, value.start_ms),
            _encode_tags(value),
        )
    )


def _encode_partitions(partitions: tuple[tuple[str, tuple[int, ...]], ...]) -> bytes:
    parts = [fields.unsigned_varint(len(partitions) + 1)]
    for topic, indexes in partitions:
        parts += (
            fields.compact_string(topic),
            fields.unsigned_varint(len(indexes) + 1),
            *map(INT32.pack, indexes),
            NO_TAGS,
        )
    return b"".join(parts)


def _encode_value_0(value: TransactionLogValue) -> bytes:
    """The value without the fields that are tagged in version 1: version 0 has no place for them."""
    return b"".join(
        (
            _VALUE_START.pack(0, value.producer_id, value.producer_epoch, value.timeout_ms, value.status),
            _NULL_ARRAY_0 if value.partitions is None else _encode_partitions_0(value.partitions),
            _VALUE_END.pack(value.last_update_ms, value.start_ms),
        )
    )


def _encode_partitions_0(partitions: tuple[tuple[str, tuple[int, ...]], ...]) -> bytes:
    parts = [INT32.pack(len(partitions))]
    for topic, indexes in partitions:
        parts += (fields.string(topic), INT32.pack(len(indexes)), *map(INT32.pack, indexes))
    return b"".join(parts)


def _encode_tags(value: TransactionLogValue) -> bytes:
    """The tagged fields, as Kafka writes them: only those that are not at their default."""
    tags = {}
    if value.previous_producer_id != NO_PRODUCER_ID:
        tags[_PREVIOUS_PRODUCER_ID_TAG] = INT64.pack(value.previous_producer_id)
    if value.next_producer_id != NO_PRODUCER_ID:
        tags[_NEXT_PRODUCER_ID_TAG] = INT64.pack(value.next_producer_id)
    if value.client_version:
        tags[_CLIENT_VERSION_TAG] = INT16.pack(value.client_version)
    return fields.tagged_fields(tags)


def _read_value(version: int, data: bytes) -> TransactionLogValue:
    _, producer_id, producer_epoch, timeout_ms, status = _VALUE_START.unpack_from(data)
    reader = FieldReader(data, _VALUE_START.size, flexible=version >= 1)
    partitions = _read_partitions(reader)
    last_update_ms = reader.int64()
    start_ms = reader.int64()
    tags = reader.tags()
    return TransactionLogValue(
        producer_id,
        producer_epoch,
        timeout_ms,
        status,
        partitions,
        last_update_ms,
        start_ms,
        _tag(tags, _PREVIOUS_PRODUCER_ID_TAG, INT64, NO_PRODUCER_ID),
        _tag(tags, _NEXT_PRODUCER_ID_TAG, INT64, NO_PRODUCER_ID),
        _tag(tags, _CLIENT_VERSION_TAG, INT16, 0),
    )


def _read_partitions(reader: FieldReader) -> tuple[tuple[str, tuple[int, ...]], ...] | None:
    size = reader.nullable_array_size()
    return None if size is None else tuple(_read_topic(reader) for _ in range(size))


def _read_topic(reader: FieldReader) -> tuple[str, tuple[int, ...]]:
    topic = reader.string()
    indexes = tuple(reader.int32() for _ in range(reader.array_size()))
    reader.tags()
    return topic, indexes


def _tag(tags: dict[int, bytes], tag: int, kind: struct.Struct, default: int) -> int:
    data = tags.get(tag)
    return default if data is None else int(kind.unpack(data)[0])


TRANSACTION_LOG: RecordSchema[str, TransactionLogValue] = RecordSchema(
    name="TransactionLog",
    ids=(TRANSACTION_LOG_ID,),
    encode_key=_encode_key,
    read_key=_read_key,
    encode_value=_encode_value,
    read_value={version: partial(_read_value, version) for version in range(2)},
)

TRANSACTION_LOG_0 = replace(TRANSACTION_LOG, encode_value=_encode_value_0)
"""The record as it is written below transaction.version 1."""
