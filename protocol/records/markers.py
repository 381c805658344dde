"""The control batches that end transactions (Kafka's EndTransactionMarker)."""

from __future__ import annotations

import struct
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

from .batch import (
    COMPRESSION_MASK,
    CONTROL_FLAG,
    HEADER_SIZE,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD,
    TRANSACTIONAL_FLAG,
    BatchHeader,
)
from .build import Record, iter_records, pack_batch

_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")
_SECTION = struct.Struct(">5shhBhiB")
_START = b"\x20\0\0\0\x08"  # of a record of 16 bytes: attributes, two deltas of 0, and a key of 4 bytes
_VALUE_LENGTH = 2 * _VALUE.size
_BATCH_LENGTH = HEADER_SIZE - LOG_OVERHEAD + _SECTION.size


class ControlRecordType(IntEnum):
    """What a control record says (Kafka's ControlRecordType)."""

    ABORT = 0
    COMMIT = 1


class EndTransactionMarker(NamedTuple):
    """The one record of the control batch that ends a transaction."""

    type: ControlRecordType
    coordinator_epoch: int


def build_end_marker(
    marker: EndTransactionMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp: int,
) -> bytearray:
    """The control batch that ends a producer's transaction in a partition; `timestamp` in ms."""
    return pack_batch(
        _SECTION.pack(_START, 0, marker.type, _VALUE_LENGTH, 0, marker.coordinator_epoch, 0),
        1,
        last_offset_delta=0,
        attributes=TRANSACTIONAL_FLAG | CONTROL_FLAG,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )


def read_control_batch(
    batch: bytes | bytearray | memoryview, header: BatchHeader
) -> tuple[EndTransactionMarker | None, int] | None:
    """What a control batch says and its timestamp in ms; None if compaction has removed the record.

    The marker is None for a control record of another type. Raises ValueError if the batch is malformed.
    """
    plain = not header.attributes & (LOG_APPEND_TIME_FLAG | COMPRESSION_MASK)
    if plain and header.batch_length == _BATCH_LENGTH and header.record_count == 1:
        marker = _read_section(bytes(batch[HEADER_SIZE : HEADER_SIZE + _SECTION.size]))
        if marker is not None:
            return marker, header.base_timestamp
    record = next(iter_records(batch, header), None)
    return None if record is None else (read_end_marker(record), record.timestamp)


@lru_cache(maxsize=16)  # two per coordinator epoch
def _read_section(section: bytes) -> EndTransactionMarker | None:
    """The marker in a section laid out as `build_end_marker` writes it, None for any other."""
    start, key_version, kind, length, version, coordinator_epoch, headers = _SECTION.unpack(section)
    as_built = start == _START and not (key_version or version or headers) and length == _VALUE_LENGTH
    return EndTransactionMarker(_TYPES[kind], coordinator_epoch) if as_built and kind in _TYPES else None


def read_end_marker(record: Record) -> EndTransactionMarker | None:
    """The marker in a control record, None for control records of another type. Raises ValueError if malformed."""
    if record.key is None or len(record.key) < _KEY.size:
        raise ValueError("a control record without a control record's key")
    version, kind = _KEY.unpack_from(record.key)
    if version < 0:
        raise ValueError(f"control record key of version {version}")
    if kind not in _TYPES:
        return None
    if record.value is None or len(record.value) < _VALUE.size:
        raise ValueError("an end marker without an end marker's value")
    version, coordinator_epoch = _VALUE.unpack_from(record.value)
    if version < 0:
        raise ValueError(f"end marker value of version {version}")
    return EndTransactionMarker(_TYPES[kind], coordinator_epoch)


_TYPES = {int(kind): kind for kind in ControlRecordType}
