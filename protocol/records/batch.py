"""The 61-byte header of a record batch (magic 2, KIP-98), read and patched in place.

Base offset, length and leader epoch lie outside the CRC, so the broker can assign them without touching the rest.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from .crc import crc32c

HEADER_SIZE = 61
LOG_OVERHEAD = 12  # base offset and batch length: what precedes the bytes that batch length counts
MAGIC = 2
NO_PRODUCER_ID = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1
MAX_SEQUENCE = 2**31 - 1

COMPRESSION_MASK = 0x07
LOG_APPEND_TIME_FLAG = 0x08
TRANSACTIONAL_FLAG = 0x10
CONTROL_FLAG = 0x20
DELETE_HORIZON_FLAG = 0x40
_KNOWN_FLAGS = COMPRESSION_MASK | TRANSACTIONAL_FLAG | CONTROL_FLAG | DELETE_HORIZON_FLAG

_HEADER = struct.Struct(">qiibIhiqqqhii")
_OFFSET = struct.Struct(">q")
_PLACE = struct.Struct(">qii")
_CRC = struct.Struct(">I")
_ATTRIBUTES = struct.Struct(">h")
_PRODUCER = struct.Struct(">qhi")

MAGIC_AT = 16
ATTRIBUTES_LOW_AT = 22
"""Positions in a batch of the magic byte and of the attributes' low byte, which holds all the flags."""
_CRC_AT = 17
_ATTRIBUTES_AT = 21
_MAX_TIMESTAMP_AT = 35
_PRODUCER_AT = 43


def advance_sequence(sequence: int, by: int) -> int:
    """The sequence number `by` after `sequence`; 0 follows 2^31 - 1 (Kafka's DefaultRecordBatch.incrementSequence)."""
    return (sequence + by) & MAX_SEQUENCE


class BatchHeader(NamedTuple):
    """A batch header as stored; offsets are absolute, times in milliseconds."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch, header included."""
        return self.batch_length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        """Offset of the last record (the one before compaction, if that was removed)."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset after this batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> int:
        """Compression id 0-7; 0-4 are none, gzip, snappy, lz4, zstd."""
        return self.attributes & COMPRESSION_MASK

    @property
    def is_transactional(self) -> bool:
        """Whether it is part of a transaction."""
        return bool(self.attributes & TRANSACTIONAL_FLAG)

    @property
    def is_control(self) -> bool:
        """Whether it holds a control record (a transaction's end) rather than data."""
        return bool(self.attributes & CONTROL_FLAG)

    @property
    def is_log_append_time(self) -> bool:
        """Whether every record's timestamp is `max_timestamp`, set by the broker."""
        return bool(self.attributes & LOG_APPEND_TIME_FLAG)

    @property
    def has_delete_horizon(self) -> bool:
        """Whether `base_timestamp` is the time from which tombstones may be removed (KIP-534)."""
        return bool(self.attributes & DELETE_HORIZON_FLAG)

    @property
    def has_producer_id(self) -> bool:
        """Whether it was written by an idempotent or transactional producer."""
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record, or -1 if it has none."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return advance_sequence(self.base_sequence, self.last_offset_delta)


pack_fields = _HEADER.pack
"""Packs the fields, in the order of `BatchHeader`, into the 61 bytes of a header."""

_new_tuple = tuple.__new__  # `BatchHeader._make` without its check of the number of fields
_unpack_header = _HEADER.unpack_from


def read_header(buf: bytes | bytearray | memoryview, pos: int = 0) -> BatchHeader:
    """The header at `pos`. Raises struct.error when fewer than 61 bytes follow; nothing else is checked."""
    return _new_tuple(BatchHeader, _unpack_header(buf, pos))


def read_producer(buf: bytes | bytearray | memoryview) -> tuple[int, int, int]:
    """Producer id, producer epoch and base sequence of the batch at the start."""
    return _PRODUCER.unpack_from(buf, _PRODUCER_AT)


def pack_header(header: BatchHeader) -> bytes:
    """The 61 bytes of `header`, its CRC as given."""
    return _HEADER.pack(*header)


def check_crc(buf: bytes | bytearray | memoryview, pos: int, header: BatchHeader) -> bool:
    """Whether the batch at `pos` matches its CRC; the whole batch must lie in `buf`."""
    return crc32c(memoryview(buf)[pos + _ATTRIBUTES_AT : pos + header.batch_length + LOG_OVERHEAD]) == header.crc


set_place = _PLACE.pack_into
"""Writes base offset, batch length and leader epoch into a buffer with a batch at the given position."""


def set_offsets_and_epoch(
    buf: bytearray | memoryview, header: BatchHeader, base_offset: int, leader_epoch: int
) -> None:
    """Write base offset and leader epoch into the batch at the start of the buffer, whose header is given."""
    set_place(buf, 0, base_offset, header.batch_length, leader_epoch)


def set_max_timestamp(
    buf: bytearray | memoryview, pos: int, header: BatchHeader, *, log_append_time: bool, max_timestamp: int
) -> BatchHeader:
    """Write timestamp type and largest timestamp into the batch at `pos`, recompute the CRC, return the new header.

    Nothing changes when both are set already; otherwise unused attribute bits are cleared as well (Kafka's
    DefaultRecordBatch.setMaxTimestamp).
    """
    if header.max_timestamp == max_timestamp and header.is_log_append_time == log_append_time:
        return header
    attributes = header.attributes & _KNOWN_FLAGS
    if log_append_time:
        attributes |= LOG_APPEND_TIME_FLAG
    _ATTRIBUTES.pack_into(buf, pos + _ATTRIBUTES_AT, attributes)
    _OFFSET.pack_into(buf, pos + _MAX_TIMESTAMP_AT, max_timestamp)
    crc = write_crc(buf, pos, header.size)
    return header._replace(attributes=attributes, max_timestamp=max_timestamp, crc=crc)


def write_crc(buf: bytearray | memoryview, pos: int, size: int) -> int:
    """Compute the CRC of the batch of `size` bytes at `pos`, write it there and return it."""
    crc = crc32c(memoryview(buf)[pos + _ATTRIBUTES_AT : pos + size])
    _CRC.pack_into(buf, pos + _CRC_AT, crc)
    return crc
