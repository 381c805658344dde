"""From record batches to Arrow, without a Python object per record.

Only the lengths of the records, each of which tells where the next one starts, are read one by one. Everything else is
done for thousands of records at once: NumPy reads the varints at all starts, and Arrow gathers keys and values by
laying a binary array over the raw bytes, with records and gaps in turn, and taking every other element.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from odradek_pipeline.datasource.columns import COLUMNS, HEADER_FIELDS
from odradek_pipeline.protocol.records.batch import NO_SEQUENCE, BatchHeader
from odradek_pipeline.protocol.records.build import INT_BITS, LONG_BITS, read_varint

Longs = NDArray[np.int64]
Bytes = NDArray[np.uint8]

_MAX_MILLIS = (2**63 - 1) // 1000


@dataclass(slots=True)
class Chunk:
    """Batches of one partition, with decompressed records sections, that are decoded together."""

    headers: list[BatchHeader] = field(default_factory=list)
    sections: list[bytes | memoryview] = field(default_factory=list)
    size: int = 0

    def add(self, header: BatchHeader, section: bytes | memoryview) -> None:
        self.headers.append(header)
        self.sections.append(section)
        self.size += len(section)


@dataclass(frozen=True, slots=True)
class ChunkPlace:
    """Where the records of a chunk come from; only those with offsets in [start, end) are wanted."""

    topic: str
    partition: int
    start: int
    end: int


def decode(chunk: Chunk, place: ChunkPlace, names: Sequence[str]) -> pa.RecordBatch:
    """The wanted records of a chunk, with these columns. Raises ValueError if a section is malformed."""
    data = b"".join(chunk.sections)
    try:
        records = _Records(data, chunk)
        records.select(place)
        arrays = [records.column(name, place) for name in names]
    except IndexError as error:
        raise ValueError("a record ends behind the batch") from error
    schema = pa.schema([(name, COLUMNS[name].arrow) for name in names])
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def record_starts(data: bytes, chunk: Chunk) -> list[int]:
    """Where each record begins. Raises ValueError or IndexError if the sections do not hold as many as they say."""
    starts: list[int] = []
    append = starts.append
    position = end = 0
    for header, section in zip(chunk.headers, chunk.sections, strict=True):
        end += len(section)
        for _ in range(header.record_count):
            append(position)
            size = data[position]
            if size < 0x80:
                position += 1 + (size >> 1)
            elif (second := data[position + 1]) < 0x80:
                position += 2 + ((size & 0x7F | second << 7) >> 1)
            else:
                size, position = read_varint(data, position, INT_BITS)
                position += size
        if position != end:
            raise ValueError(f"the records of the batch at offset {header.base_offset} do not fill it")
    return starts


def varints(data: Bytes, at: Longs, bits: int) -> tuple[Longs, Longs]:
    """The zigzag varints at these places, as `read_varint` reads them, and where they end.

    Raises IndexError, ValueError.
    """
    byte = data[at]
    value = byte.astype(np.uint64)
    after = at + 1
    more = np.flatnonzero(byte >= 0x80)
    if more.size:
        value[more] &= 0x7F
        shift = 7
        while more.size:
            if shift >= bits:
                raise ValueError("a varint is too long")
            byte = data[after[more]]
            value[more] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
            if shift + 7 > bits:
                value[more] &= np.uint64((1 << bits) - 1)
            after[more] += 1
            more = more[byte >= 0x80]
            shift += 7
    return (value >> np.uint64(1)).view(np.int64) ^ -(value & np.uint64(1)).view(np.int64), after


class _Records:
    """The records of one chunk, as arrays of positions and numbers."""

    def __init__(self, data: bytes, chunk: Chunk) -> None:
        self._buffer = pa.py_buffer(data)
        self._data = view = np.frombuffer(data, np.uint8)
        self._headers = chunk.headers
        counts = np.array([header.record_count for header in chunk.headers], np.int64)
        starts = np.array(record_starts(data, chunk), np.int64)
        self._ends = np.append(starts[1:], len(data)) if len(starts) else starts
        self._batch = np.repeat(np.arange(len(counts)), counts)
        _, at = varints(view, starts, INT_BITS)
        self._time_delta, at = varints(view, at + 1, LONG_BITS)  # after the attributes, which are unused
        self._offset_delta, at = varints(view, at, INT_BITS)
        self._key_size, self._key_at = varints(view, at, INT_BITS)
        self._value_size, self._value_at = varints(view, self._key_at + np.maximum(self._key_size, 0), INT_BITS)
        self._header_count, self._headers_at = varints(view, self._value_at + np.maximum(self._value_size, 0), INT_BITS)
        self.offsets = self._of_batch("base_offset") + self._offset_delta
        self._check()

    def _check(self) -> None:
        without = self._header_count == 0
        if not np.array_equal(self._headers_at[without], self._ends[without]):
            raise ValueError("a record's size is not that of its fields")
        room = self._ends - self._headers_at
        if ((self._header_count < 0) | (self._header_count > room)).any():
            raise ValueError("a record has an impossible number of headers")

    def _of_batch(self, name: str) -> Longs:
        """A field of each record's batch."""
        of_batches = np.array([getattr(header, name) for header in self._headers], np.int64)
        return of_batches[self._batch]

    def select(self, place: ChunkPlace) -> None:
        """Keep only the records with wanted offsets."""
        wanted = (self.offsets >= place.start) & (self.offsets < place.end)
        if wanted.all():
            return
        self.offsets = self.offsets[wanted]
        self._batch = self._batch[wanted]
        self._ends = self._ends[wanted]
        self._time_delta = self._time_delta[wanted]
        self._offset_delta = self._offset_delta[wanted]
        self._key_size, self._key_at = self._key_size[wanted], self._key_at[wanted]
        self._value_size, self._value_at = self._value_size[wanted], self._value_at[wanted]
        self._header_count, self._headers_at = self._header_count[wanted], self._headers_at[wanted]

    def column(self, name: str, place: ChunkPlace) -> pa.Array:
        """One column. Raises ValueError for malformed headers."""
        match name:
            case "key":
                return _gather(self._buffer, self._key_at, self._key_size, pa.binary())
            case "value":
                return _gather(self._buffer, self._value_at, self._value_size, pa.binary())
            case "headers":
                return self._header_lists()
            case "topic":
                return pa.repeat(pa.scalar(place.topic, pa.string()), len(self.offsets))
            case "partition":
                return _array(np.full(len(self.offsets), place.partition, np.int32), pa.int32())
            case "offset":
                return _array(self.offsets, pa.int64())
            case "timestamp":
                return self._timestamps()
            case "timestampType":
                return _array(self._of_batch("is_log_append_time").astype(np.int32), pa.int32())
            case "producer_id":
                return _array(self._of_batch("producer_id"), pa.int64())
            case "producer_epoch":
                return _array(self._of_batch("producer_epoch").astype(np.int32), pa.int32())
            case "sequence":
                return self._sequences()
            case "is_transactional":
                return pa.Array.from_buffers(
                    pa.bool_(), len(self.offsets), [None, _bits(self._of_batch("is_transactional"))]
                )
        raise ValueError(f"there is no column {name}")

    def _timestamps(self) -> pa.Array:
        """The times, converted from milliseconds to microseconds; null for a time out of their range."""
        appended = self._of_batch("is_log_append_time").astype(np.bool_)
        own = self._of_batch("base_timestamp") + self._time_delta
        millis = np.where(appended, self._of_batch("max_timestamp"), own)
        beyond = (millis > _MAX_MILLIS) | (millis < -_MAX_MILLIS)
        micros = np.where(beyond, 0, millis) * 1000
        return _array(micros, COLUMNS["timestamp"].arrow, null=beyond)

    def _sequences(self) -> pa.Array:
        base = self._of_batch("base_sequence")
        wrapped = (base + self._offset_delta) & (2**31 - 1)
        return _array(np.where(base == NO_SEQUENCE, NO_SEQUENCE, wrapped).astype(np.int32), pa.int32())

    def _header_lists(self) -> pa.Array:
        """All headers lie in flat arrays; the n-th ones of the records that have as many are read at once."""
        counts = self._header_count
        bounds = np.concatenate(([0], np.cumsum(counts)))
        key_at, key_size, value_at, value_size = (np.zeros(bounds[-1], np.int64) for _ in range(4))
        at = self._headers_at.copy()
        active = np.flatnonzero(counts)
        number = 0
        while active.size:
            slot = bounds[active] + number
            key_size[slot], key_at[slot] = size, after = varints(self._data, at[active], INT_BITS)
            if (size < 0).any():
                raise ValueError("a header without a key")
            value_size[slot], value_at[slot] = size, after = varints(self._data, after + size, INT_BITS)
            at[active] = after + np.maximum(size, 0)
            number += 1
            active = active[counts[active] > number]
        if not np.array_equal(at, self._ends):
            raise ValueError("a record's size is not that of its headers")
        keys = _text(_gather(self._buffer, key_at, key_size, pa.binary()))
        values = _gather(self._buffer, value_at, value_size, pa.binary())
        pairs = pa.StructArray.from_arrays([keys, values], fields=HEADER_FIELDS)
        return pa.ListArray.from_arrays(_array(bounds.astype(np.int32), pa.int32()), pairs)


def _text(values: pa.Array) -> pa.Array:
    """The bytes as text; invalid UTF-8 becomes replacement characters, as in Kafka's consumer."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([value.decode(errors="replace") for value in values.to_pylist()], pa.string())


def _bits(flags: NDArray[np.generic]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags.astype(np.bool_), bitorder="little"))


def _array(values: NDArray[np.generic], kind: pa.DataType, null: NDArray[np.bool_] | None = None) -> pa.Array:
    """Do as `pa.array`, which would import pandas where it is installed."""
    validity = _bits(~null) if null is not None and null.any() else None
    return pa.Array.from_buffers(kind, len(values), [validity, pa.py_buffer(values)])


def _gather(buffer: pa.Buffer, start: Longs, size: Longs, kind: pa.DataType) -> pa.Array:
    """The bytes of these places, which ascend, one after the other; a size below 0 is null."""
    count = len(start)
    if not count:
        return pa.array([], kind)
    bounds = np.empty(2 * count, np.int32)
    bounds[0::2] = start
    bounds[1::2] = start + np.maximum(size, 0)
    with_gaps = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(bounds), buffer])
    taken = with_gaps.take(_array(np.arange(0, 2 * count - 1, 2), pa.int64()))
    null = size < 0
    validity = _bits(~null) if null.any() else None
    return pa.Array.from_buffers(kind, count, [validity, *taken.buffers()[1:]])
