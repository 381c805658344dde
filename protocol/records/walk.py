"""The validation walk over the records of a batch, and the memory that it may take to unpack them.

The walk runs for every record produced, so the loop is written for the shapes that clients usually send: varints of up
to three bytes (offsets and sizes) or four (times), and no headers. Any other shape is left to `exact_walk`, which reads
as Kafka's DefaultRecord does and gives Kafka's answer to every malformed record.

A batch of a few kilobytes may unpack to 128 MB. Each thread that unpacks one would take that at once, so all have one
budget of bytes, and take it in turns: many small sections, or one large.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from ..errors import InvalidRecord, UnknownServerError
from ..primitives import Buffer
from .build import INT_BITS, LONG_BITS, read_varint
from .compression import LEAST_LIMIT, LEAST_RATIO, Compression, DecompressionLimitError, decompress


class Walk(NamedTuple):
    """The common facts about the records of a well-formed batch.

    Timestamp deltas are milliseconds from the base timestamp; `sequential` means offset deltas 0, 1, 2, ...
    """

    lowest_timestamp_delta: int
    highest_timestamp_delta: int
    has_null_key: bool
    sequential: bool


# Without a Python-level call: one per batch produced.
_new_walk: Callable[[tuple[int, int, bool, bool]], Walk] = partial(tuple.__new__, Walk)


class RecordShape(NamedTuple):
    """One record without its contents; a key or value size below 0 means null."""

    offset_delta: int
    timestamp_delta: int
    key_size: int
    value_size: int


class _UnknownShapeError(Exception):
    """The fast walk met a shape that it does not handle."""


class TooManyHeadersError(Exception):
    """The records have more headers than the walk may take time for."""


UNBOUNDED = 1 << 62


def fast_walk(section: bytes, count: int, most_headers: int = UNBOUNDED) -> Walk | None:
    """Walk a records section of `count` >= 1 records; None if `exact_walk` must decide.

    If it returns a Walk, the section has exactly `count` records, each as long as its fields, and nothing after them.
    Raises TooManyHeadersError: the work is bounded by the numbers of records and headers, not by the bytes.
    """
    try:
        return _walk(section, count, 2 * most_headers)
    except (IndexError, _UnknownShapeError):
        return None


# In one piece, since it runs for every record.
def _walk(section: bytes, count: int, headers_left: int) -> Walk:  # noqa: PLR0912, PLR0915
    pos = 0
    # Timestamp deltas and offset deltas stay zigzag-encoded: even numbers are 0, 1, 2, ..., odd ones -1, -2, ...
    highest = lowest = -1
    null_key = False
    sequential = True
    for expected_offset in range(0, 2 * count, 2):
        size = section[pos]
        if size < 0x80:
            start = pos + 1
        else:
            byte = section[pos + 1]
            if byte < 0x80:
                size += (byte << 7) - 0x80
                start = pos + 2
            else:
                size += (byte << 7) + (_last(section, pos + 2) << 14) - 0x4080
                start = pos + 3
        time = section[start + 1]  # after the attributes, which are unused
        pos = start + 2
        if time >= 0x80:
            byte = section[pos]
            pos += 1
            time += (byte << 7) - 0x80
            if byte >= 0x80:
                byte = section[pos]
                pos += 1
                time += (byte << 14) - 0x4000
                if byte >= 0x80:
                    time += (_last(section, pos) << 21) - 0x200000
                    pos += 1
        if time & 1:
            if time > lowest:  # noqa: PLR1730 (max() would be a call in the hottest loop)
                lowest = time
        elif time > highest:
            highest = time
        offset = section[pos]
        pos += 1
        if offset >= 0x80:
            byte = section[pos]
            pos += 1
            offset += (byte << 7) - 0x80
            if byte >= 0x80:
                offset += (_last(section, pos) << 14) - 0x4000
                pos += 1
        if offset != expected_offset:
            sequential = False
        length = section[pos]
        pos += 1
        if length == 1:
            null_key = True
        else:
            if length >= 0x80:
                byte = section[pos]
                pos += 1
                length += (byte << 7) - 0x80
                if byte >= 0x80:
                    length += (_last(section, pos) << 14) - 0x4000
                    pos += 1
            if length & 1:
                raise _UnknownShapeError
            pos += length >> 1
        length = section[pos]
        pos += 1
        if length != 1:
            if length >= 0x80:
                byte = section[pos]
                pos += 1
                length += (byte << 7) - 0x80
                if byte >= 0x80:
                    length += (_last(section, pos) << 14) - 0x4000
                    pos += 1
            if length & 1:
                raise _UnknownShapeError
            pos += length >> 1
        if section[pos]:
            headers_left -= section[pos]  # zigzag-encoded: twice the number
            if headers_left < 0:
                raise TooManyHeadersError
            pos = _skip_headers(section, pos)
        else:
            pos += 1
        if pos - start << 1 != size:
            raise _UnknownShapeError
    if pos != len(section) or highest < 0:
        raise _UnknownShapeError
    return _new_walk((-(lowest + 1 >> 1), highest >> 1, null_key, sequential))


def _last(section: bytes, pos: int) -> int:
    byte = section[pos]
    if byte >= 0x80:
        raise _UnknownShapeError
    return byte


def _skip_headers(section: bytes, pos: int) -> int:
    """Position after the headers, whose count is at `pos`."""
    count = section[pos]
    if count >= 0x80 or count & 1:
        raise _UnknownShapeError
    pos += 1
    for is_value in (False, True) * (count >> 1):
        length = section[pos]
        pos += 1
        if length >= 0x80:
            length += (_last(section, pos) << 7) - 0x80
            pos += 1
        if length & 1:
            if length != 1 or not is_value:
                raise _UnknownShapeError
        else:
            pos += length >> 1
    return pos


def exact_walk(
    section: bytes, count: int, *, partial: bool, compressed: bool, largest: int = UNBOUNDED
) -> Iterator[RecordShape]:
    """Walk a records section as Kafka does, one record at a time, in `count` steps; `largest` is a record's size.

    `partial` is how Kafka reads a compressed batch that it stores unchanged (DefaultRecord.readPartiallyFrom): the
    records' own sizes are ignored, unless negative. Otherwise it uses DefaultRecord.readFrom.

    Raises InvalidRecord, and UnknownServerError where Kafka fails on the length of an uncompressed record.
    """
    pos = 0
    for _ in range(count):
        try:
            size, pos = read_varint(section, pos, INT_BITS)
        except ValueError as error:
            if compressed or pos >= len(section) or not _has_long_varint(section, pos):
                raise InvalidRecord(f"The batch has fewer bytes than its records: {error}.") from error
            raise UnknownServerError(f"The length of a record cannot be read: {error}.") from error
        if size > largest:
            raise InvalidRecord(f"A record of {size} bytes is larger than max.decompressed.message.bytes={largest}.")
        try:
            if size < 0 or (not partial and pos + size > len(section)):
                raise ValueError(f"a record of {size} bytes does not fit")
            end = len(section) if partial else pos + size
            shape, pos = _read_shape(section, pos, end)
            if not partial and pos != end:
                raise ValueError(f"a record's fields end at {pos}, the record at {end}")
        except ValueError as error:
            raise InvalidRecord(f"The structure of a record is invalid: {error}.") from error
        yield shape
    if pos != len(section):
        raise InvalidRecord("The batch has bytes behind its last record.")


def _has_long_varint(section: bytes, pos: int) -> bool:
    return len(section) - pos >= 5 and all(byte & 0x80 for byte in section[pos : pos + 5])


def _read_shape(section: bytes, pos: int, end: int) -> tuple[RecordShape, int]:
    if pos >= end:
        raise ValueError("a record without attributes")
    timestamp_delta, pos = read_varint(section, pos + 1, LONG_BITS)
    offset_delta, pos = read_varint(section, pos, INT_BITS)
    key_size, pos = _skip_sized(section, pos, end)
    value_size, pos = _skip_sized(section, pos, end)
    headers, pos = read_varint(section, pos, INT_BITS)
    if not 0 <= headers <= end - pos:
        raise ValueError(f"{headers} headers")
    for _ in range(headers):
        size, pos = _skip_sized(section, pos, end)
        if size < 0:
            raise ValueError("a header without a key")
        _, pos = _skip_sized(section, pos, end)
    return RecordShape(offset_delta, timestamp_delta, key_size, value_size), pos


def _skip_sized(section: bytes, pos: int, end: int) -> tuple[int, int]:
    size, pos = read_varint(section, pos, INT_BITS)
    if size > 0:
        pos += size
    if pos > end:
        raise ValueError("a field ends behind its record")
    return size, pos


BUDGET_BYTES = 64 << 20
FREE_BYTES = 1 << 20
SHARE_BYTES = 16 << 20
"""What is tried first: no codec says beforehand how much its data unpacks to. The smallest does not wait for others."""


class ByteBudget:
    """Bytes that are given to threads in the order in which they ask; who needs more than all gets all, alone."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.free = total
        self._door = threading.Lock()  # whoever waits for bytes keeps it, so that nobody overtakes
        self._changed = threading.Condition()

    @contextmanager
    def taken(self, size: int) -> Iterator[None]:
        """Wait until so many bytes are free, and keep them until the end of the `with`."""
        size = min(size, self.total)
        with self._door, self._changed:
            self._changed.wait_for(lambda: self.free >= size)
            self.free -= size
        try:
            yield
        finally:
            with self._changed:
                self.free += size
                self._changed.notify()


BUDGET = ByteBudget(BUDGET_BYTES)


@contextmanager
def decompressed(codec: Compression, data: Buffer, limit: int | None = None) -> Iterator[bytes]:
    """As `decompress`, for a thread, which may have to wait: drop the section before the end of the `with`.

    A section that does not fit into a share is unpacked again once no other is there.
    """
    most = max(LEAST_LIMIT, LEAST_RATIO * len(data)) if limit is None else limit
    section = bytes(data) if codec is Compression.NONE else _within(codec, data, min(most, FREE_BYTES))
    if section is not None:
        yield section
        return
    with BUDGET.taken(SHARE_BYTES):
        section = _within(codec, data, min(most, SHARE_BYTES))
        if section is not None:
            yield section
            return
    with BUDGET.taken(BUDGET.total):
        yield decompress(codec, data, most)


def _within(codec: Compression, data: Buffer, share: int) -> bytes | None:
    """The section, None if it is larger than the share."""
    try:
        return decompress(codec, data, share)
    except DecompressionLimitError:
        return None
