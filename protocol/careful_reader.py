"""Readers of messages that trust nothing: every length is checked, and errors name the field.

The generated readers fall back on them. kio's own native reader is not used for what clients send: a huge compact
array length makes it reserve memory for that many elements, and the failed allocation aborts the process (kio 0.6.5).
Here every length is compared with the bytes that are left before it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
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
    read_tag_count,
    read_uvarint,
    skip_tagged_field,
    too_many,
    underflow,
)
from .schema import (
    DURATIONS,
    NUMBER_FORMATS,
    Entity,
    EntityClass,
    FieldPlan,
    field_plans,
    is_tuple,
    most_elements,
    tuple_maker,
)

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


CONVERTED = {"error_code"}
"""The kinds of numbers whose values `struct` does not return in their final form."""

Put: TypeAlias = Callable[[Entity, Any], None]
"""Sets one field of an entity."""

Tagged: TypeAlias = Mapping[int, tuple[Read, Put | None]]


@cache
def careful_reader(cls: EntityClass, into: EntityClass) -> Read:
    """As `protocol.reader.entity_reader`, which is faster and falls back on this one for what it cannot read."""
    in_order = [(field_reader(cls, into, plan), setter(into, plan.name)) for plan in fields_in_order(cls)]
    unread = [(setter(into, plan.name), plan.default) for plan in fields_not_read(cls, into)]
    tagged = tagged_readers(cls, into)
    flexible: bool = cls.__flexible__
    make = tuple_maker(into) if is_tuple(into) else None
    size = len(field_plans(into))

    def read_entity(buf: Buffer, pos: int) -> tuple[Entity, int]:
        entity = object.__new__(into) if make is None else [None] * size
        for put, default in unread:
            if put is not None:
                put(entity, default)
        for read, put in in_order:
            value, pos = read(buf, pos)
            if put is not None:
                put(entity, value)
        if flexible:
            pos = read_tags(buf, pos, entity, tagged)
        return entity if make is None else make(entity), pos

    return read_entity


def fields_in_order(cls: EntityClass) -> list[FieldPlan]:
    """The fields that every message of `cls` has."""
    return [plan for plan in field_plans(cls) if plan.tag is None]


def fields_not_read(cls: EntityClass, into: EntityClass) -> list[FieldPlan]:
    """The fields of `into` that a message of `cls` may lack, and which are therefore set to their defaults first."""
    read = {plan.name for plan in fields_in_order(cls)}
    return [plan for plan in field_plans(into) if plan.name not in read]


def setter(into: EntityClass, name: str) -> Put | None:
    """Return a setter of a field, or None if `into` lacks it.

    It bypasses the frozen dataclass, in a third of its constructor's time; of a tuple it sets the element of a list.
    """
    if is_tuple(into):
        places = [place for place, plan in enumerate(field_plans(into)) if plan.name == name]
        return _element_setter(places[0]) if places else None
    slot = into.__dict__.get(name)
    return None if slot is None else slot.__set__


def _element_setter(place: int) -> Put:
    def put(entity: Entity, value: Any) -> None:
        entity[place] = value

    return put


def class_into(into: EntityClass, plan: FieldPlan) -> EntityClass:
    """The class for the entities of a field: that of `into`, or their own where `into` lacks the field."""
    return next((known.entity for known in field_plans(into) if known.name == plan.name), plan.entity)


def field_reader(cls: EntityClass, into: EntityClass, plan: FieldPlan) -> Read:
    """Return the reader of one field's value."""
    read = _wire_reader(cls, into, plan)
    load = plan.load
    if load is None:
        return read

    def read_and_load(buf: Buffer, pos: int) -> tuple[Any, int]:
        value, pos = read(buf, pos)
        return load(value), pos

    return read_and_load


def _wire_reader(cls: EntityClass, into: EntityClass, plan: FieldPlan) -> Read:
    flexible: bool = cls.__flexible__
    what = f"{cls.__name__}.{plan.name}"
    if plan.entity is None:
        read = primitive_reader(plan.kind, flexible, plan.nullable and not plan.array, what)
    else:
        read = careful_reader(plan.entity, class_into(into, plan))
    if plan.array and plan.kind in NUMBER_FORMATS and plan.kind not in CONVERTED:
        items = array_reader(read, flexible, plan.nullable, what, most_elements(cls))
        return number_array_reader(NUMBER_FORMATS[plan.kind], items, flexible, what)
    if plan.array:
        return array_reader(read, flexible, plan.nullable, what, most_elements(cls))
    if plan.entity is not None and plan.nullable:
        return nullable_reader(read, plan.entity.__name__, plan.tag is not None)
    return read


def tagged_readers(cls: EntityClass, into: EntityClass) -> Tagged:
    """The readers and setters of the tagged fields, by tag."""
    return {
        plan.tag: (field_reader(cls, into, plan), setter(into, plan.name))
        for plan in field_plans(cls)
        if plan.tag is not None
    }


def read_tags(buf: Buffer, pos: int, entity: Entity, tagged: Tagged) -> int:
    """Set the fields found in a section of tagged fields; return the position after it."""
    count, pos = read_tag_count(buf, pos)
    for _ in range(count):
        tag, pos = read_uvarint(buf, pos)
        size, pos = read_uvarint(buf, pos)
        if tag in tagged:
            read, put = tagged[tag]
            value, pos = read(buf, pos)
            if put is not None:
                put(entity, value)
        else:
            pos = skip_tagged_field(buf, pos, tag, size)
    return pos
