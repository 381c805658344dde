"""What kio's entity classes say about the wire, in the form the readers and writers are built from.

kio's entities, made quickly.

A frozen dataclass's constructor sets each field by a call, which is three quarters of its cost. Here an object of a
mutable class with the same slots is filled, and its `__class__` then set to kio's.

What the generated readers and writers have in common: lines of source, and the names used in them.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from datetime import timedelta
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

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


T = TypeVar("T")


def mutable_twin(cls: EntityClass) -> type[Any]:
    """A class with the slots of `cls` and nothing else: setting its objects' `__class__` makes them ones of `cls`."""
    return type(cls.__name__, (), {"__slots__": cls.__slots__})


def maker(cls: type[T]) -> type[T]:
    """A faster replacement for the constructor of `cls`, one of kio's classes, with the same parameters."""
    names: dict[str, Any] = {"new": mutable_twin(cls), "cls": cls}
    parameters, lines = [], []
    for field in fields(cls):  # type: ignore[arg-type]  # a dataclass
        if field.default is MISSING:
            parameters.append(field.name)
        else:
            names[f"default_{field.name}"] = field.default
            parameters.append(f"{field.name}=default_{field.name}")
        lines.append(f"    made.{field.name} = {field.name}\n")
    source = f"def make(*, {', '.join(parameters)}):\n    made = new()\n{''.join(lines)}"
    exec(f"{source}    made.__class__ = cls\n    return made\n", names)  # made of the names of kio's fields alone
    made: type[T] = names["make"]
    return made


_STEP = "    "


class GeneratedSource:
    """The lines for one entity.

    `level` is the nesting depth of the entity: `entity0` is the message, `entity1` is inside it, read in its loop.
    Lines and names are those of the whole function; `depth` is the indentation of its outermost lines.
    """

    def __init__(self, level: int, depth: int, lines: list[str], names: dict[str, Any]) -> None:
        self._level = level
        self._lines = lines
        self._names = names
        self._margin = _STEP * (depth + level)

    def _name(self, value: Any) -> str:
        """A name by which the source can refer to `value`."""
        name = f"given{len(self._names)}"
        self._names[name] = value
        return name

    def _add(self, source: str) -> None:
        self._lines += [self._margin + line for line in source.splitlines()]
