"""Readers of kio's entity classes that trust nothing: every length is checked, and errors name the field.

kio's own native reader is not used for what clients send: a huge compact array length makes it reserve memory for that
many elements, and the failed allocation aborts the process (kio 0.6.5). Here every length is compared with the bytes
that are left before it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeAlias

from .entities import tuple_maker
from .primitives import Buffer, read_tag_count, read_uvarint, skip_tagged_field
from .schema import NUMBER_FORMATS, Entity, EntityClass, FieldPlan, field_plans, is_tuple, most_elements
from .value_readers import Read, array_reader, nullable_reader, number_array_reader, primitive_reader

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
