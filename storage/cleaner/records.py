"""The records of a batch as compaction sees them: keys, whether there is a value, and the bytes to keep."""

from collections.abc import Iterator
from typing import NamedTuple

from protocol.records import batch as batches
from protocol.records.batch import BatchHeader
from protocol.records.build import encode_varint, read_varint
from protocol.records.compression import Compression, compress, decompress
from storage.files import Buffer

_NULL = 1  # the varint -1


class View(NamedTuple):
    """One record: deltas as they stand, its key, whether it has a value; `rest` is all behind its timestamp delta."""

    timestamp_delta: int
    offset_delta: int
    key: bytes | None
    has_value: bool
    rest: bytes


def section_of(batch: Buffer, header: BatchHeader) -> bytes:
    """The records section, decompressed. Raises ValueError."""
    return decompress(Compression(header.compression), memoryview(batch)[batches.HEADER_SIZE : header.size])


def views(section: bytes, count: int) -> Iterator[View]:
    """Every record of a section. Raises ValueError or IndexError when it is malformed."""
    at = 0
    for _ in range(count):
        byte = section[at]
        if byte < 0x80:
            size, at = byte >> 1, at + 1
        else:
            size, at = read_varint(section, at)
        end = at + size
        at += 1  # attributes mean nothing
        byte = section[at]
        if byte < 0x80:
            time, at = (byte >> 1) ^ -(byte & 1), at + 1
        else:
            time, at = read_varint(section, at)
        rest = at
        byte = section[at]
        if byte < 0x80:
            offset, at = byte >> 1, at + 1
        else:
            offset, at = read_varint(section, at)
        byte = section[at]
        if byte < 0x80:
            key_size, at = (byte >> 1) ^ -(byte & 1), at + 1
        else:
            key_size, at = read_varint(section, at)
        key = None
        if key_size >= 0:
            key = section[at : at + key_size]
            at += key_size
        if at >= end or end > len(section):
            raise ValueError("a record's size is not that of its fields")
        yield View(time, offset, key, section[at] != _NULL, section[rest:end])
        at = end


def rebuild(header: BatchHeader, kept: list[View], delete_horizon_ms: int | None) -> bytes:
    """The batch with these of its records alone (Kafka's MemoryRecords.buildRetainedRecordsInto).

    Offsets, sequence numbers, producer and leader epoch stay, and so does the last offset. The base timestamp becomes
    the delete horizon, if there is one (KIP-534), or else the first record's.
    """
    if header.is_log_append_time:
        times = [header.max_timestamp] * len(kept)
        max_timestamp = header.max_timestamp
    else:
        times = [header.base_timestamp + one.timestamp_delta for one in kept]
        max_timestamp = max(times)
    base_timestamp = times[0] if delete_horizon_ms is None else delete_horizon_ms
    parts: list[bytes] = []
    for one, time in zip(kept, times, strict=True):
        delta = encode_varint(time - base_timestamp)
        parts += (encode_varint(1 + len(delta) + len(one.rest)), b"\x00", delta, one.rest)
    section = b"".join(parts)
    if header.compression:
        section = compress(Compression(header.compression), section)
    attributes = header.attributes & ~batches.DELETE_HORIZON_FLAG
    if delete_horizon_ms is not None:
        attributes |= batches.DELETE_HORIZON_FLAG
    return _with_header(
        header._replace(
            attributes=attributes,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            record_count=len(kept),
        ),
        section,
    )


def empty(header: BatchHeader) -> bytes:
    """The batch without its records, which keeps offsets and sequence numbers (DefaultRecordBatch.writeEmptyHeader)."""
    kept = batches.LOG_APPEND_TIME_FLAG | batches.TRANSACTIONAL_FLAG | batches.CONTROL_FLAG
    return _with_header(
        header._replace(attributes=header.attributes & kept, base_timestamp=batches.NO_TIMESTAMP, record_count=0),
        b"",
    )


def _with_header(header: BatchHeader, section: bytes) -> bytes:
    length = batches.HEADER_SIZE - batches.LOG_OVERHEAD + len(section)
    out = bytearray(batches.pack_header(header._replace(batch_length=length)))
    out += section
    batches.write_crc(out, 0, len(out))
    return bytes(out)
