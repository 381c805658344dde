"""Writers of single values: strings, bytes, UUIDs, durations, times, numbers, and arrays of whatever has a writer."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from struct import Struct
from typing import Any, TypeAlias
from uuid import UUID

from .durations import MILLISECOND
from .errors import UnknownServerError
from .primitives import INT16, INT32, LONGEST_STRING, append_uvarint
from .schema import NUMBER_FORMATS

Write: TypeAlias = Callable[[bytearray, Any], None]
"""Appends a value to the output."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ZERO_UUID = bytes(16)
_SHORT_ARRAY = 16

NULL_STRING = {
    (True, True): b"\x00",
    (True, False): b"\x01",
    (False, True): b"\xff\xff",
    (False, False): b"\x00\x00",
}
"""By flexible and nullable; where the version has no null, it is written as the empty string."""


def append_length(out: bytearray, length: int, flexible: bool) -> None:
    if flexible:
        append_uvarint(out, length + 1)
    else:
        out += INT32.pack(length)


def string_length(data: bytes) -> int:
    """The length of a string's bytes. Raises UnknownServerError if no client could read it; nor does Kafka write it."""
    if len(data) > LONGEST_STRING:
        raise UnknownServerError
    return len(data)


def milliseconds(value: timedelta | int) -> int:
    """The milliseconds of a timedelta, or of an int that is milliseconds already."""
    return value if isinstance(value, int) else value // MILLISECOND


def primitive_writer(kind: str, flexible: bool, nullable: bool) -> Write:
    """The writer of one value. Where the version has no null, it is written as the empty value or zero."""
    match kind:
        case "string":
            return _string_writer(flexible, nullable)
        case "bytes" | "records":
            return _bytes_writer(flexible, nullable)
        case "uuid":
            return _write_uuid
        case "timedelta_i32":
            return _duration_writer(Struct(">i"))
        case "timedelta_i64":
            return _duration_writer(Struct(">q"))
        case "datetime_i64":
            return _write_time
    pack = Struct(">" + NUMBER_FORMATS[kind]).pack

    def write_number(out: bytearray, value: Any) -> None:
        out += pack(value)

    return write_number


def _string_writer(flexible: bool, nullable: bool) -> Write:
    null = NULL_STRING[flexible, nullable]

    def write_string(out: bytearray, value: str | None) -> None:
        if value is None:
            out += null
            return
        data = value.encode()
        length = string_length(data)
        if flexible:
            append_uvarint(out, length + 1)
        else:
            out += INT16.pack(length)
        out += data

    return write_string


def _bytes_writer(flexible: bool, nullable: bool) -> Write:
    def write_bytes(out: bytearray, value: bytes | bytearray | memoryview | None) -> None:
        if value is None:
            append_length(out, -1 if nullable else 0, flexible)
            return
        append_length(out, len(value), flexible)
        out += value

    return write_bytes


def _write_uuid(out: bytearray, value: UUID | None) -> None:
    out += _ZERO_UUID if value is None else value.bytes


def _duration_writer(layout: Struct) -> Write:
    def write_duration(out: bytearray, value: timedelta | int) -> None:
        out += layout.pack(milliseconds(value))

    return write_duration


_pack_time = Struct(">q").pack


def _write_time(out: bytearray, value: datetime | int | None) -> None:
    """Write the milliseconds since 1970 of a datetime, or of an int that is that already; -1 for None."""
    if value is None:
        out += _pack_time(-1)
    elif isinstance(value, int):
        out += _pack_time(value)
    else:
        out += _pack_time((value - _EPOCH) // MILLISECOND)


def nullable_writer(write: Write, tagged: bool) -> Write:
    """A struct after a byte that is 1, or -1 for null (KIP-893); in a tagged field, 0 for null."""
    null = 0 if tagged else 0xFF

    def write_nullable(out: bytearray, value: Any) -> None:
        if value is None:
            out.append(null)
        else:
            out.append(1)
            write(out, value)

    return write_nullable


def array_writer(write_item: Write, flexible: bool, nullable: bool) -> Write:
    def write_array(out: bytearray, items: Any) -> None:
        if items is None:
            append_length(out, -1 if nullable else 0, flexible)
            return
        if flexible and len(items) < 0x7F:
            out.append(len(items) + 1)
        else:
            append_length(out, len(items), flexible)
        for item in items:
            write_item(out, item)

    return write_array


@cache
def _short_array_packers(code: str, flexible: bool) -> list[Callable[..., bytes]]:
    """Functions by count, each of which packs the length and that many numbers in one call."""
    return [Struct(f">{'B' if flexible else 'i'}{count}{code}").pack for count in range(_SHORT_ARRAY)]


def number_array_writer(code: str, flexible: bool, nullable: bool) -> Write:
    """An array of numbers with the `struct` letter `code`."""
    packers = _short_array_packers(code, flexible)
    extra = 1 if flexible else 0

    def write_number_array(out: bytearray, items: Any) -> None:
        if items is None:
            append_length(out, -1 if nullable else 0, flexible)
            return
        count = len(items)
        if count < _SHORT_ARRAY:
            out += packers[count](count + extra, *items)
        else:
            append_length(out, count, flexible)
            out += Struct(f">{count}{code}").pack(*items)

    return write_number_array
