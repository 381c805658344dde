"""Between records and batches: for internal topics, recompression, control batches and tests.

Validation is the job of `protocol.records.walk`; here a malformed batch just raises ValueError. The control batches are
those that end transactions (Kafka's EndTransactionMarker).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum
from functools import lru_cache, partial
from typing import NamedTuple

from ..primitives import Buffer
from . import batch as batches
from .batch import (
    COMPRESSION_MASK,
    CONTROL_FLAG,
    HEADER_SIZE,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD,
    TRANSACTIONAL_FLAG,
    BatchHeader,
)
from .compression import Compression, compress, decompress

Headers = tuple[tuple[bytes, bytes | None], ...]


class Record(NamedTuple):
    """One record; `offset` is absolute, `timestamp` milliseconds; header keys are UTF-8 bytes as on the wire."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


# Without a Python-level call: one per record read.
_new_record: Callable[[tuple[int, int, bytes | None, bytes | None, Headers]], Record] = partial(tuple.__new__, Record)


def encode_varint(number: int) -> bytes:
    """A zigzag varint of at most 64 bits."""
    number = (number << 1) ^ (number >> 63)
    if number < 0x80:
        return _ONE_BYTE[number]
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


_ONE_BYTE = [bytes((i,)) for i in range(128)]
_NULL = encode_varint(-1)
_NO_HEADERS = encode_varint(0)
INT_BITS = 32
LONG_BITS = 64


def _sized(data: bytes | None) -> bytes:
    if data is None:
        return _NULL
    size = len(data)
    return (_ONE_BYTE[2 * size] if size < 64 else encode_varint(size)) + data


def encode_record(
    offset_delta: int, timestamp_delta: int, key: bytes | None, value: bytes | None, headers: Headers = ()
) -> bytes:
    """One record of a records section, its length in front (Kafka's DefaultRecord.writeTo)."""
    tail = _NO_HEADERS
    if headers:
        tail = encode_varint(len(headers)) + b"".join(_sized(name) + _sized(content) for name, content in headers)
    deltas = _encode_deltas(timestamp_delta, offset_delta) if timestamp_delta or offset_delta else _FIRST
    head = deltas + _sized(key)
    size, content = (_NULL, b"") if value is None else (encode_varint(len(value)), value)
    length = encode_varint(len(head) + len(size) + len(content) + len(tail))
    return b"".join((length, head, size, content, tail))  # a large value is copied once


def _encode_deltas(timestamp_delta: int, offset_delta: int) -> bytes:
    """The two deltas, after the attributes byte, which is unused."""
    return b"\x00" + encode_varint(timestamp_delta) + encode_varint(offset_delta)


_FIRST = _encode_deltas(0, 0)


def build_batch(
    records: Iterable[Record],
    *,
    compression: Compression = Compression.NONE,
    level: int | None = None,
    log_append_time: int = batches.NO_TIMESTAMP,
    producer_id: int = batches.NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = batches.NO_SEQUENCE,
    transactional: bool = False,
) -> bytearray:
    """A whole batch, CRC included (Kafka's MemoryRecordsBuilder), as clients send it.

    Its base offset is 0 and its leader epoch -1: the log sets them (`set_offsets_and_epoch`). The first record's
    timestamp is the base timestamp. With `log_append_time` the batch says that the broker set the time.
    """
    base_timestamp = max_timestamp = batches.NO_TIMESTAMP
    section, count, last = bytearray(), 0, 0  # of millions of small records, no list is kept
    for count, (last, timestamp, key, value, record_headers) in enumerate(records, 1):
        if count == 1:
            base_timestamp = max_timestamp = timestamp
        max_timestamp = max(max_timestamp, timestamp)
        section += encode_record(last, timestamp - base_timestamp, key, value, record_headers)
    attributes = 0
    if log_append_time != batches.NO_TIMESTAMP:
        attributes |= batches.LOG_APPEND_TIME_FLAG
        max_timestamp = log_append_time
    if transactional:
        attributes |= batches.TRANSACTIONAL_FLAG
    return pack_batch(
        section,
        count,
        last_offset_delta=last,
        attributes=attributes,
        compression=compression,
        level=level,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )


def pack_batch(
    section: Buffer,
    record_count: int,
    *,
    last_offset_delta: int,
    attributes: int = 0,
    compression: Compression = Compression.NONE,
    level: int | None = None,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int = batches.NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = batches.NO_SEQUENCE,
) -> bytearray:
    """`build_batch` of a records section that is encoded but not compressed; `attributes` without the compression."""
    if compression is not Compression.NONE:
        section = compress(compression, section, level)
        attributes |= compression
    out = bytearray(
        batches.pack_fields(
            0,
            batches.HEADER_SIZE - batches.LOG_OVERHEAD + len(section),
            -1,
            batches.MAGIC,
            0,  # the CRC comes last
            attributes,
            last_offset_delta,
            base_timestamp,
            max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            record_count,
        )
    )
    out += section
    batches.write_crc(out, 0, len(out))
    return out


def iter_records(buf: bytes | bytearray | memoryview, header: BatchHeader, pos: int = 0) -> Iterator[Record]:
    """The records of the batch at `pos`, with absolute offsets and the timestamps a consumer sees.

    Raises ValueError (DecompressionError is one) for a records section that cannot be read.
    """
    section = memoryview(buf)[pos + batches.HEADER_SIZE : pos + header.size]
    yield from decode_section(decompress(Compression(header.compression), section), header)


def decode_section(section: bytes, header: BatchHeader) -> Iterator[Record]:
    """The records of a decompressed section. Raises ValueError when it is malformed."""
    try:
        yield from _decode_section(section, header)
    except IndexError as error:
        raise ValueError("a record is cut short") from error


def _decode_section(section: bytes, header: BatchHeader) -> Iterator[Record]:
    fixed = header.max_timestamp if header.is_log_append_time else None
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    section_size = len(section)
    at = 0
    for _ in range(header.record_count):
        # Varints of a byte, or two, are read in place: calls for them would take most of the time of a small record.
        low = section[at]
        if low < 0x80:
            size, at = _NUMBER[low], at + 1
        elif (high := section[at + 1]) < 0x80 and not low & 1:
            size, at = (low - 0x80 | high << 7) >> 1, at + 2
        else:
            size, at = read_varint(section, at, INT_BITS)
        end = at + size
        if size < 0 or end > section_size:
            raise ValueError("a record ends behind the batch")
        at += 1
        if (low := section[at]) < 0x80:
            timestamp_delta, at = _NUMBER[low], at + 1
        else:
            timestamp_delta, at = read_varint(section, at, LONG_BITS)
        low = section[at]
        if low < 0x80:
            offset_delta, at = _NUMBER[low], at + 1
        elif (high := section[at + 1]) < 0x80 and not low & 1:
            offset_delta, at = (low - 0x80 | high << 7) >> 1, at + 2
        else:
            offset_delta, at = read_varint(section, at, INT_BITS)
        key, at = _read_sized(section, at, end)
        value, at = _read_sized(section, at, end)
        headers: Headers = ()
        if not section[at]:
            at += 1
        else:
            headers, at = _read_headers(section, at, end)
        if at != end:
            raise ValueError("a record's size is not that of its fields")
        timestamp = base_timestamp + timestamp_delta if fixed is None else fixed
        yield _new_record((base_offset + offset_delta, timestamp, key, value, headers))


def read_varint(buf: bytes, at: int, bits: int) -> tuple[int, int]:
    """A zigzag varint at `at`, and the position after it (Kafka's ByteUtils.readVarint and readVarlong).

    `bits` is INT_BITS, for up to five bytes, or LONG_BITS, for up to ten. Bits beyond them are lost, as in Java. Raises
    ValueError if the varint is longer, or cut.
    """
    number = shift = 0
    try:
        while (byte := buf[at]) & 0x80:
            number |= (byte & 0x7F) << shift
            shift += 7
            at += 1
            if shift >= bits:  # here, not after the loop: a long one would take quadratic time
                raise ValueError("a varint is too long")
    except IndexError as error:
        raise ValueError("a varint is cut short") from error
    number |= byte << shift
    if shift + 7 > bits:
        number &= (1 << bits) - 1
    return (number >> 1) ^ -(number & 1), at + 1


_NUMBER = [(byte >> 1) ^ -(byte & 1) for byte in range(0x80)]
"""The numbers that varints of one byte stand for."""


def _read_sized(section: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    byte = section[at]
    if byte < 0x80:
        size, at = _NUMBER[byte], at + 1
    else:
        size, at = read_varint(section, at, INT_BITS)
    if size < 0:
        return None, at
    if at + size > end:
        raise ValueError("a field ends behind its record")
    return section[at : at + size], at + size


def _read_headers(section: bytes, at: int, end: int) -> tuple[Headers, int]:
    count, at = read_varint(section, at, INT_BITS)
    if not 0 <= count <= end - at:
        raise ValueError("an impossible number of headers")
    headers: list[tuple[bytes, bytes | None]] = []
    for _ in range(count):
        key, at = _read_sized(section, at, end)
        value, at = _read_sized(section, at, end)
        if key is None:
            raise ValueError("a header without a key")
        headers.append((key, value))
    return tuple(headers), at


_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")
_SECTION = struct.Struct(">5shhBhiB")
_START = b"\x20\0\0\0\x08"  # of a record of 16 bytes: attributes, two deltas of 0, and a key of 4 bytes
_VALUE_LENGTH = 2 * _VALUE.size
_BATCH_LENGTH = HEADER_SIZE - LOG_OVERHEAD + _SECTION.size


class ControlRecordType(IntEnum):
    """The type of a control record (Kafka's ControlRecordType)."""

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
    """Return the type of a control batch and its timestamp in ms; None if compaction has removed the record.

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
