"""Finding batches in a segment's `.log` file by their headers."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from protocol.errors import CorruptMessage
from protocol.primitives import Buffer
from protocol.records.batch import HEADER_SIZE, BatchHeader, read_header

Read = Callable[[int, int], Buffer]
"""(size, position) -> up to `size` bytes."""

_OFFSETS = struct.Struct(">qi11xi")  # base offset, batch length, last offset delta
_SCAN_BYTES = 4096
_LEAST_LENGTH = 14  # the least that follows base offset and length in a batch of any format
_MAGIC_AT, _NEWEST_MAGIC = 16, 2


class WrongStartError(Exception):
    """No batch that comes before the offset, or has it, begins where the index says."""


def leads_to(header: Buffer, first_offset: int, offset: int) -> bool:
    """Whether these bytes begin a batch of a segment from `first_offset` on, which has `offset` or comes before it."""
    if len(header) < HEADER_SIZE:
        return False
    base, length, _ = _OFFSETS.unpack_from(header)
    return first_offset <= base <= offset and length >= _LEAST_LENGTH and header[_MAGIC_AT] <= _NEWEST_MAGIC


def find_batch(read: Read, start: int, end: int, offset: int, first_offset: int) -> tuple[int, int] | None:
    """(position, size) of the first batch from `start` whose last offset is at least `offset`; None if there is none.

    The rule is Kafka's FileRecords.searchForOffsetWithSize. A batch that reaches past `end` does not count.
    `first_offset` is the segment's. Raises WrongStartError if `start` is not 0 and does not lead to the offset,
    CorruptMessage for a length that no batch has.
    """
    unpack = _OFFSETS.unpack_from
    position = start
    if start + HEADER_SIZE > end and start:
        raise WrongStartError
    while position + HEADER_SIZE <= end:
        chunk = read(min(_SCAN_BYTES, end - position), position)
        if position == start != 0 and not leads_to(chunk, first_offset, offset):
            raise WrongStartError
        last = len(chunk) - _OFFSETS.size
        if last < 0:
            return None
        at = 0
        while at <= last:
            base, length, delta = unpack(chunk, at)
            if length < _LEAST_LENGTH:
                raise CorruptMessage(
                    f"Found record size {length} smaller than minimum record overhead at {position + at}"
                )
            if base + delta >= offset:
                size = length + 12
                return (position + at, size) if position + at + size <= end else None
            at += length + 12
        position += at
    return None


def headers(read: Read, start: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of every batch from `start`, a batch's position. Lengths are trusted, except 0."""
    position = start
    while position + HEADER_SIZE <= end:
        chunk = read(min(_SCAN_BYTES, end - position), position)
        if len(chunk) < HEADER_SIZE:
            return
        at = 0
        while at + HEADER_SIZE <= len(chunk):
            header = read_header(chunk, at)
            if header.size < HEADER_SIZE:
                raise CorruptMessage(f"Found record size {header.batch_length} smaller than minimum record overhead")
            yield position + at, header
            at += header.size
        position += at
