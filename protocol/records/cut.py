"""Records of a batch, cut short: for who only looks at them, whatever they have.

A batch of some kB may have records of a hundred megabytes, or with a hundred thousand headers. Here a records section
is unpacked a piece at a time, and of each record only so much is kept as is wanted; the rest is stepped over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from . import batch as batches
from .batch import BatchHeader
from .build import INT_BITS, LONG_BITS, Headers, Record, read_varint
from .compression import Compression, unpacked

RECORD_WORK = 4_000
"""What it takes to step over a record, or to read a header, in bytes that could be unpacked in that time."""

PIECE_BYTES = 1 << 20
_VARINT_BYTES = 10


class CutLimits(NamedTuple):
    """What is kept at most of a record: bytes of key and value each, headers, and bytes of all headers together."""

    content: int
    headers: int
    header_content: int


class LeftOut(NamedTuple):
    """The part of a record that was left out: bytes of key and value, headers, bytes of the headers that were kept."""

    key: int = 0
    value: int = 0
    headers: int = 0
    header_content: int = 0


NOTHING = LeftOut()


def cut_records(
    buf: bytes | bytearray | memoryview,
    header: BatchHeader,
    pos: int,
    first: int,
    most: CutLimits,
    spend: Callable[[int], None],
) -> Iterator[tuple[Record, LeftOut]]:
    """The records from offset `first` on of the batch at `pos`, with what was left out of each.

    `spend` is told of the work that is about to be done, in bytes to be unpacked, and what it raises ends the reading.
    Raises ValueError (DecompressionError is one) for a records section that cannot be read.
    """
    section = memoryview(buf)[pos + batches.HEADER_SIZE : pos + header.size]
    source = _Source(_pieces(Compression(header.compression), section), spend)
    fixed = header.max_timestamp if header.is_log_append_time else None
    for _ in range(header.record_count):
        spend(RECORD_WORK)
        is_whole = False
        size = source.varint(INT_BITS)
        if size < 0:
            raise ValueError("a record of a negative size")
        end = source.position + size
        source.skip(1)
        timestamp = source.varint(LONG_BITS) + header.base_timestamp
        offset = source.varint(INT_BITS) + header.base_offset
        if offset >= first:
            key, more_key = source.sized(most.content)
            value, more_value = source.sized(most.content)
            headers, more_headers, more_content = _headers(source, most, spend)
            is_whole = not more_headers
            record = Record(offset, timestamp if fixed is None else fixed, key, value, headers)
            cut = bool(more_key or more_value or more_headers or more_content)
            yield record, LeftOut(more_key, more_value, more_headers, more_content) if cut else NOTHING
        if source.position > end or (is_whole and source.position < end):
            raise ValueError("a record's size is not that of its fields")
        source.skip(end - source.position)


def _pieces(codec: Compression, section: memoryview) -> Iterator[bytes]:
    if codec is not Compression.NONE:
        return unpacked(codec, section)
    return (bytes(section[at : at + PIECE_BYTES]) for at in range(0, len(section), PIECE_BYTES))


def _headers(source: _Source, most: CutLimits, spend: Callable[[int], None]) -> tuple[Headers, int, int]:
    """The first headers, how many more there are, and how many bytes were left out of those that are given."""
    count = source.varint(INT_BITS)
    if count < 0:
        raise ValueError("an impossible number of headers")
    found: list[tuple[bytes, bytes | None]] = []
    left_out = 0
    room = most.header_content
    while len(found) < min(count, most.headers) and room > 0:
        spend(RECORD_WORK)
        name, more_name = source.sized(room)
        if name is None:
            raise ValueError("a header without a key")
        content, more_content = source.sized(room - len(name))
        room -= len(name) + len(content or b"")
        left_out += more_name + more_content
        found.append((name, content))
    return tuple(found), count - len(found), left_out


class _Source:
    """Reads on through pieces, of which it has one at a time. `position` counts the bytes that were read."""

    def __init__(self, pieces: Iterator[bytes], spend: Callable[[int], None]) -> None:
        self._pieces = pieces
        self._spend = spend
        self._piece = b""
        self._at = 0
        self._before = 0

    @property
    def position(self) -> int:
        return self._before + self._at

    def _next(self) -> bool:
        """Go on with the next piece, behind what is left of this one; false at the end."""
        piece = next(self._pieces, None)
        if piece is None:
            return False
        self._spend(len(piece))
        self._before += self._at
        self._piece, self._at = self._piece[self._at :] + piece, 0
        return True

    def varint(self, bits: int) -> int:
        at = self._at
        if at < len(self._piece) and (byte := self._piece[at]) < 0x80:
            self._at = at + 1
            return (byte >> 1) ^ -(byte & 1)
        while len(self._piece) - self._at < _VARINT_BYTES and self._next():
            pass
        number, self._at = read_varint(self._piece, self._at, bits)
        return number

    def sized(self, most: int) -> tuple[bytes | None, int]:
        """The first `most` bytes of a key, a value or a part of a header, and how many more it has."""
        size = self.varint(INT_BITS)
        if size < 0:
            return None, 0
        wanted = min(size, most)
        found = self._piece[self._at : self._at + wanted]
        self._at += len(found)
        if len(found) < wanted:
            found = self._joined(found, wanted)
        if size > wanted:
            self.skip(size - wanted)
        return found, size - wanted

    def _joined(self, data: bytes, wanted: int) -> bytes:
        parts, missing = [data], wanted - len(data)
        while missing:
            if not self._next():
                raise ValueError("a record ends behind the batch")
            part = self._piece[self._at : self._at + missing]
            self._at += len(part)
            missing -= len(part)
            parts.append(part)
        return b"".join(parts)

    def skip(self, size: int) -> None:
        while (left := len(self._piece) - self._at) < size:
            self._at += left
            size -= left
            if not self._next():
                raise ValueError("a record ends behind the batch")
        self._at += size
