"""Writers of single values: strings, bytes, UUIDs, durations, times and numbers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from struct import Struct
from typing import Any, TypeAlias
from uuid import UUID

from protocol.primitives import INT16, INT32, append_uvarint
from protocol.schema import NUMBER_FORMATS, Entity

Write: TypeAlias = Callable[[bytearray, Any], None]
"""Appends (some of) an entity to the bytes so far."""

Get: TypeAlias = Callable[[Any], Any]
"""Takes the value to write out of what a ``Write`` was given."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_ZERO_UUID = bytes(16)


def append_length(out: bytearray, length: int, flexible: bool) -> None:
    if flexible:
        append_uvarint(out, length + 1)
    else:
        out += INT32.pack(length)


def primitive_writer(kind: str, flexible: bool, nullable: bool, get: Get) -> Write:
    """The writer of one value. A null where the version has none is written as the empty value or zero."""
    match kind:
        case "string":
            return _string_writer(flexible, nullable, get)
        case "bytes" | "records":
            return _bytes_writer(flexible, nullable, get)
        case "uuid":
            return _uuid_writer(get)
        case "timedelta_i32":
            return _duration_writer(Struct(">i"), get)
        case "timedelta_i64":
            return _duration_writer(Struct(">q"), get)
        case "datetime_i64":
            return _time_writer(get)
    pack = Struct(">" + NUMBER_FORMATS[kind]).pack

    def write_number(out: bytearray, entity: Entity) -> None:
        out += pack(get(entity))

    return write_number


def _string_writer(flexible: bool, nullable: bool, get: Get) -> Write:
    null = (b"\x00" if flexible else b"\xff\xff") if nullable else (b"\x01" if flexible else b"\x00\x00")

    def write_string(out: bytearray, entity: Entity) -> None:
        value: str | None = get(entity)
        if value is None:
            out += null
            return
        data = value.encode()
        if flexible:
            append_uvarint(out, len(data) + 1)
        else:
            out += INT16.pack(len(data))
        out += data

    return write_string


def _bytes_writer(flexible: bool, nullable: bool, get: Get) -> Write:
    def write_bytes(out: bytearray, entity: Entity) -> None:
        value: bytes | bytearray | memoryview | None = get(entity)
        if value is None:
            append_length(out, -1 if nullable else 0, flexible)
            return
        append_length(out, len(value), flexible)
        out += value

    return write_bytes


def _uuid_writer(get: Get) -> Write:
    def write_uuid(out: bytearray, entity: Entity) -> None:
        value: UUID | None = get(entity)
        out += _ZERO_UUID if value is None else value.bytes

    return write_uuid


def _duration_writer(layout: Struct, get: Get) -> Write:
    """Milliseconds of a timedelta, or of an int that is milliseconds already."""

    def write_duration(out: bytearray, entity: Entity) -> None:
        value: timedelta | int = get(entity)
        out += layout.pack(value if isinstance(value, int) else value // _MILLISECOND)

    return write_duration


def _time_writer(get: Get) -> Write:
    """Milliseconds since 1970 of a datetime, or of an int that is that already; -1 for None."""
    pack = Struct(">q").pack

    def write_time(out: bytearray, entity: Entity) -> None:
        value: datetime | int | None = get(entity)
        if value is None:
            out += pack(-1)
        elif isinstance(value, int):
            out += pack(value)
        else:
            out += pack((value - _EPOCH) // _MILLISECOND)

    return write_time
