"""What kio's entity classes say about the wire, in the form the readers and writers are built from."""

from __future__ import annotations

from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from datetime import timedelta
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeAlias, Union, get_args, get_origin, get_type_hints

Entity: TypeAlias = Any
"""An instance of one of kio's frozen dataclasses (or whatever has the attributes of one)."""

EntityClass: TypeAlias = Any
"""One of kio's dataclasses (mypy considers `type[Any]` unhashable, so `functools.cache` would reject it)."""

NUMBER_FORMATS = {
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
"""struct's letter for each kind whose values are passed to `struct.pack` unchanged."""

DURATIONS = {"timedelta_i32": "i", "timedelta_i64": "q"}
"""struct's letter for each kind that is a number of milliseconds."""

_ZEROS: dict[str, Any] = {
    "string": "",
    "bytes": b"",
    "records": None,
    "uuid": None,
    "bool": False,
    "float64": 0.0,
    "timedelta_i32": timedelta(0),
    "timedelta_i64": timedelta(0),
    "datetime_i64": None,
}


@dataclass(frozen=True, slots=True)
class FieldPlan:
    """One field of an entity class.

    `kind` is kio's `kafka_type`, or "" for an entity, whose class is then `entity`. `type_name` is that of the type,
    which for some says what a value is: TopicName, GroupId. `nullable` refers to the array where `array` is set.
    `default` is the field's value where a message does not carry it.
    """

    name: str
    kind: str
    type_name: str
    entity: EntityClass | None
    array: bool
    nullable: bool
    tag: int | None
    default: Any


@cache
def field_plans(cls: EntityClass) -> tuple[FieldPlan, ...]:
    """The fields of `cls` in wire order; tagged ones are included, in the place where they are declared."""
    hints = _hints(cls)
    return tuple(_plan(field, hints[field.name]) for field in fields(cls))


def default_entity(cls: EntityClass, **values: Any) -> Entity:
    """An instance with these values, and every other field at its default."""
    return cls(**{plan.name: plan.default for plan in field_plans(cls)} | values)


def _hints(cls: EntityClass) -> dict[str, Any]:
    """The types of the fields, also where the class is declared with postponed annotations."""
    types = {field.name: field.type for field in fields(cls)}
    return get_type_hints(cls) if any(isinstance(declared, str) for declared in types.values()) else types


def _plan(field: Field[Any], hint: Any) -> FieldPlan:
    declared, nullable = _without_none(hint)
    array = get_origin(declared) is tuple
    if array:
        declared, _ = _without_none(get_args(declared)[0])  # an array of UUIDs is a tuple of UUID | None
    entity = declared if is_dataclass(declared) else None
    kind = "" if entity is not None else str(field.metadata["kafka_type"])
    return FieldPlan(
        name=field.name,
        kind=kind,
        type_name=str(getattr(declared, "__name__", "")),
        entity=entity,
        array=array,
        nullable=nullable,
        tag=field.metadata.get("tag"),
        default=_default(field, kind, entity, array),
    )


def _without_none(declared: Any) -> tuple[Any, bool]:
    if get_origin(declared) not in (UnionType, Union):
        return declared, False
    inner = [part for part in get_args(declared) if part is not NoneType]
    if len(inner) != 1:
        raise TypeError(f"a union of more than one type is no wire type: {declared}")
    return inner[0], True


def _default(field: Field[Any], kind: str, entity: Any, array: bool) -> Any:
    if field.default is not MISSING:
        return field.default
    if array:
        return ()
    if entity is not None:
        return default_entity(entity)
    if kind == "error_code":
        from kio.schema.errors import ErrorCode

        return ErrorCode.none
    return _ZEROS.get(kind, 0)
