"""Readers of single values, with every length checked and errors that name the field."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from struct import Struct, calcsize, unpack_from
from typing import Any, TypeAlias
from uuid import UUID

from .durations import MILLISECOND
from .primitives import (
    MOST_ELEMENTS,
    Buffer,
    DecodeError,
    decode_text,
    read_compact_length,
    read_length16,
    read_length32,
    too_many,
    underflow,
)
from .schema import DURATIONS, NUMBER_FORMATS

Read: TypeAlias = Callable[[Buffer, int], tuple[Any, int]]
"""`(buffer, position) -> (value, next position)`; raises only DecodeError."""

_FORMATS = NUMBER_FORMATS | DURATIONS | {"uuid": "16s", "datetime_i64": "q"}
_ZERO_UUID = bytes(16)
_LONGEST_MS = timedelta.max // MILLISECOND
_SHORTEST_MS = timedelta.min // MILLISECOND


def number_array_reader(code: str, read_items: Read, flexible: bool, what: str) -> Read:
    """As `read_items`, for numbers with the `struct` letter `code`: read at once if all of them are there."""
    read_length = read_compact_length if flexible else read_length32
    size = calcsize(">" + code)

    def read_number_array(buf: Buffer, pos: int) -> tuple[tuple[Any, ...] | None, int]:
        count, start = read_length(buf, pos, what)
        end = start + count * size
        if count < 0 or end > len(buf):
            return read_items(buf, pos)
        return unpack_from(f">{count}{code}", buf, start), end

    return read_number_array


def array_reader(item: Read, flexible: bool, nullable: bool, what: str, most: int = MOST_ELEMENTS) -> Read:
    """An array, as a tuple."""

    def read_array(buf: Buffer, pos: int) -> tuple[tuple[Any, ...] | None, int]:
        if not flexible:
            count, pos = read_length32(buf, pos, what)
        elif pos < len(buf) and 0 < buf[pos] < 0x80 and buf[pos] <= len(buf) - pos:  # the usual case
            count = buf[pos] - 1
            pos += 1
        else:
            count, pos = read_compact_length(buf, pos, what)
        if count < 0:
            if not nullable:
                raise DecodeError(f"{what} is null")
            return None, pos
        if count > most:
            raise too_many(what)
        items = []
        for _ in range(count):
            value, pos = item(buf, pos)
            items.append(value)
        return tuple(items), pos

    return read_array


def nullable_reader(read: Read, what: str, tagged: bool) -> Read:
    """A struct after a byte that is negative for null (KIP-893); in a tagged field, 0 for null."""

    def read_nullable(buf: Buffer, pos: int) -> tuple[Any, int]:
        if pos >= len(buf):
            raise underflow(what, 1, buf, pos)
        if not buf[pos] if tagged else buf[pos] & 0x80:
            return None, pos + 1
        return read(buf, pos + 1)

    return read_nullable


def primitive_reader(kind: str, flexible: bool, nullable: bool, what: str) -> Read:
    if kind == "string":
        return _bytes_reader(read_compact_length if flexible else read_length16, _text, nullable, what)
    if kind in ("bytes", "records"):
        return _bytes_reader(read_compact_length if flexible else read_length32, _blob, nullable, what)
    return _fixed_reader(Struct(">" + _FORMATS[kind]), _converter(kind, nullable), what)


def _text(data: Buffer, what: str) -> str:
    return decode_text(data, what)


def _blob(data: Buffer, what: str) -> bytes:
    return bytes(data)


def _bytes_reader(
    read_length: Callable[[Buffer, int, str], tuple[int, int]],
    convert: Callable[[Buffer, str], Any],
    nullable: bool,
    what: str,
) -> Read:
    def read_bytes(buf: Buffer, pos: int) -> tuple[Any, int]:
        length, pos = read_length(buf, pos, what)
        if length < 0:
            if not nullable:
                raise DecodeError(f"{what} is null")
            return None, pos
        end = pos + length
        return convert(buf[pos:end], what), end

    return read_bytes


def _fixed_reader(layout: Struct, convert: Callable[[Any], Any] | None, what: str) -> Read:
    size = layout.size
    unpack_from = layout.unpack_from

    def read_fixed(buf: Buffer, pos: int) -> tuple[Any, int]:
        end = pos + size
        if end > len(buf):
            raise underflow(what, size, buf, pos)
        return unpack_from(buf, pos)[0], end

    if convert is None:
        return read_fixed

    def read_converted(buf: Buffer, pos: int) -> tuple[Any, int]:
        value, end = read_fixed(buf, pos)
        try:
            return convert(value), end
        except (ValueError, OverflowError, OSError) as error:
            raise DecodeError(f"{what} cannot be {value!r}: {error}") from None

    return read_converted


def _converter(kind: str, nullable: bool) -> Callable[[Any], Any] | None:
    match kind:
        case "uuid":
            return lambda raw: None if raw == _ZERO_UUID else UUID(bytes=raw)
        case "error_code":
            from kio.schema.errors import ErrorCode

            return ErrorCode
        case "timedelta_i32" | "timedelta_i64":
            return duration
        case "datetime_i64":
            return _nullable_time if nullable else _time
    return None


@lru_cache(maxsize=256)  # clients mostly send the same few
def duration(ms: int) -> timedelta:
    """The duration. Python's end at 2.7 million years, int64 milliseconds later, and clients do send the maximum."""
    return timedelta(milliseconds=max(_SHORTEST_MS, min(ms, _LONGEST_MS)))


def _time(ms: int) -> datetime:
    """The time. Kafka answers -1 for a time that is not there, also where its schema has no null."""
    return datetime.fromtimestamp(ms // 1000, UTC).replace(microsecond=ms % 1000 * 1000)


def _nullable_time(ms: int) -> datetime | None:
    return None if ms == -1 else _time(ms)
