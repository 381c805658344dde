"""Writers of kio's entity classes, built from their fields; several times faster than kio's own.

A writer for an old version reads its attributes, by name, from an object of the newest version (KIP-482 calls the
fields an old version lacks "ignorable"; they are left out). Neighbouring numbers are packed by one ``struct`` call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from operator import attrgetter
from struct import Struct
from typing import Any, TypeAlias
from uuid import UUID

from protocol.primitives import INT16, INT32, append_uvarint
from protocol.schema import Entity, EntityClass, FieldPlan, default_entity, field_plans

Write: TypeAlias = Callable[[bytearray, Any], None]

_PACKED_AS_IS = {
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint8": "B",
    "uint16": "H",
    "uint32": "I",
    "uint64": "Q",
    "bool": "?",
    "float64": "d",
    "error_code": "h",
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


@cache
def entity_writer(cls: EntityClass, source: EntityClass) -> Write:
    """A function ``(out, entity)`` that appends ``entity`` in the format of ``cls``.

    The entity's attributes are those of ``source``; a field that ``source`` lacks is written as its default, unless
    the entity has the attribute all the same.
    """
    nested_sources = {plan.name: plan.entity for plan in field_plans(source)}
    steps: list[Write] = []
    run: list[FieldPlan] = []
    tagged: list[tuple[int, Write]] = []
    for plan in field_plans(cls):
        known = plan.name in nested_sources
        if plan.tag is not None:
            tagged.append((plan.tag, _field_step(plan, cls.__flexible__, nested_sources.get(plan.name), known)))
        elif known and not plan.array and plan.kind in _PACKED_AS_IS:
            run.append(plan)
        else:
            steps.extend(_run_step(run))
            run = []
            steps.append(_field_step(plan, cls.__flexible__, nested_sources.get(plan.name), known))
    steps.extend(_run_step(run))
    if cls.__flexible__:
        steps.append(_tags_step(sorted(tagged, key=lambda item: item[0]), cls))
    return _sequence(tuple(steps))


def _sequence(steps: tuple[Write, ...]) -> Write:
    if len(steps) == 1:
        return steps[0]

    def write_entity(out: bytearray, entity: Entity) -> None:
        for step in steps:
            step(out, entity)

    return write_entity


def _run_step(run: list[FieldPlan]) -> list[Write]:
    """One step for neighbouring numbers, or none if there are none."""
    if not run:
        return []
    pack = Struct(">" + "".join(_PACKED_AS_IS[plan.kind] for plan in run)).pack
    get = attrgetter(*(plan.name for plan in run))
    if len(run) == 1:

        def write_number(out: bytearray, entity: Entity) -> None:
            out += pack(get(entity))

        return [write_number]

    def write_numbers(out: bytearray, entity: Entity) -> None:
        out += pack(*get(entity))

    return [write_numbers]


def _field_step(plan: FieldPlan, flexible: bool, source: EntityClass | None, known: bool) -> Write:
    write = _value_writer(plan, flexible, source)
    name, default = plan.name, plan.default
    if known:

        def write_field(out: bytearray, entity: Entity) -> None:
            write(out, getattr(entity, name))

        return write_field

    def write_lost_field(out: bytearray, entity: Entity) -> None:
        write(out, getattr(entity, name, default))

    return write_lost_field


def _tags_step(tagged: list[tuple[int, Write]], cls: EntityClass) -> Write:
    """Tagged fields that are not at their default, in the order of their tags."""
    if not tagged:

        def write_no_tags(out: bytearray, entity: Entity) -> None:
            out.append(0)

        return write_no_tags

    defaults = default_entity(cls)
    with_defaults = []
    for tag, write in tagged:
        encoded_default = bytearray()
        write(encoded_default, defaults)
        with_defaults.append((tag, write, encoded_default))

    def write_tags(out: bytearray, entity: Entity) -> None:
        count = 0
        section = bytearray()
        for tag, write, encoded_default in with_defaults:
            value = bytearray()
            write(value, entity)
            if value != encoded_default:
                count += 1
                append_uvarint(section, tag)
                append_uvarint(section, len(value))
                section += value
        append_uvarint(out, count)
        out += section

    return write_tags


def _value_writer(plan: FieldPlan, flexible: bool, source: EntityClass | None) -> Write:
    if plan.entity is not None:
        item = entity_writer(plan.entity, source or plan.entity)
        if plan.array:
            return _array_writer(item, flexible, plan.nullable)
        return _nullable_entity_writer(item) if plan.nullable else item
    if not plan.array:
        return _primitive_writer(plan.kind, flexible, plan.nullable)
    if plan.kind in _PACKED_AS_IS:
        return _number_array_writer(_PACKED_AS_IS[plan.kind], flexible, plan.nullable)
    return _array_writer(_primitive_writer(plan.kind, flexible, nullable=False), flexible, plan.nullable)


def _append_length(out: bytearray, length: int, flexible: bool) -> None:
    if flexible:
        append_uvarint(out, length + 1)
    else:
        out += INT32.pack(length)


def _array_writer(write_item: Write, flexible: bool, nullable: bool) -> Write:
    def write_array(out: bytearray, items: Sequence[Any] | None) -> None:
        if items is None:
            _append_length(out, -1 if nullable else 0, flexible)
            return
        _append_length(out, len(items), flexible)
        for item in items:
            write_item(out, item)

    return write_array


@lru_cache(maxsize=256)
def _number_array_packer(code: str, count: int, flexible: bool) -> Callable[..., bytes]:
    """Packs a short array's length and numbers in one call."""
    return Struct(f">{'B' if flexible else 'i'}{count}{code}").pack


def _number_array_writer(code: str, flexible: bool, nullable: bool) -> Write:
    def write_numbers(out: bytearray, items: Sequence[Any] | None) -> None:
        if items is None:
            _append_length(out, -1 if nullable else 0, flexible)
            return
        count = len(items)
        if count < 64:
            out += _number_array_packer(code, count, flexible)(count + 1 if flexible else count, *items)
        else:
            _append_length(out, count, flexible)
            out += Struct(f">{count}{code}").pack(*items)

    return write_numbers


def _nullable_entity_writer(write: Write) -> Write:
    """A struct behind a byte that is -1 for null and 1 otherwise (KIP-893)."""

    def write_nullable(out: bytearray, entity: Entity | None) -> None:
        if entity is None:
            out.append(0xFF)
        else:
            out.append(1)
            write(out, entity)

    return write_nullable


def _primitive_writer(kind: str, flexible: bool, nullable: bool) -> Write:
    """The writer of one value. A null where the version has none is written as the empty value or zero."""
    match kind:
        case "string" | "bytes" | "records":
            return _bytes_writer(kind == "string", flexible, nullable)
        case "uuid":
            return _write_uuid
        case "timedelta_i32":
            return _duration_writer(Struct(">i"))
        case "timedelta_i64":
            return _duration_writer(Struct(">q"))
        case "datetime_i64":
            return _write_time
    pack = Struct(">" + _PACKED_AS_IS[kind]).pack

    def write_number(out: bytearray, value: Any) -> None:
        out += pack(value)

    return write_number


def _bytes_writer(text: bool, flexible: bool, nullable: bool) -> Write:
    length = INT16 if text else INT32

    def write_bytes(out: bytearray, value: Any) -> None:
        if value is None and not nullable:
            value = "" if text else b""
        data = value.encode() if text and value is not None else value
        size = -1 if data is None else len(data)
        if flexible:
            append_uvarint(out, size + 1)
        else:
            out += length.pack(size)
        if size > 0:
            out += data

    return write_bytes


def _write_uuid(out: bytearray, value: UUID | None) -> None:
    out += bytes(16) if value is None else value.bytes


def _duration_writer(layout: Struct) -> Write:
    def write_duration(out: bytearray, value: timedelta | int) -> None:
        out += layout.pack(value if isinstance(value, int) else value // _MILLISECOND)

    return write_duration


def _write_time(out: bytearray, value: datetime | int | None) -> None:
    if value is None:
        ms = -1
    elif isinstance(value, int):
        ms = value
    else:
        ms = (value - _EPOCH) // _MILLISECOND
    out += ms.to_bytes(8, "big", signed=True)
