"""The wire format as the classes of messages say it, in the form the readers and writers are built from.

The classes are kio's dataclasses, which say it in the metadata of their fields, and those of `protocol.declared`, which
say it in the types of their fields: dataclasses, or named tuples. A declared class serves all versions of a record; a
`Layout` is what it looks like in one of them.

A frozen dataclass's constructor sets each field by a call, which is three quarters of its cost. So an object of a
mutable class with the same slots is filled, and its `__class__` then set (`mutable_twin`, `maker`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from datetime import timedelta
from functools import cache, partial
from types import NoneType, UnionType
from typing import Annotated, Any, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

from .compiled import execute
from .primitives import MAX_INT, MOST_ELEMENTS

Entity: TypeAlias = Any
"""An instance of one of the classes (or whatever has the attributes of one)."""

EntityClass: TypeAlias = Any
"""One of the classes (mypy considers `type[Any]` unhashable, so `functools.cache` would reject it)."""

T = TypeVar("T")

NEWEST = 0x7FFF

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


# No named tuple: `typing` takes equal arguments of Annotated for the same one, also those of another copy of this file.
@dataclass(frozen=True, slots=True)
class Placed:
    """Where a declared field is: in versions `since` to `until`, and as a tagged field if it has a `tag`.

    `absent` is its value in messages without the field, where that is not the default with which objects are made.
    """

    since: int = 0
    until: int = NEWEST
    tag: int | None = None
    absent: Any = field(default_factory=lambda: MISSING)


@dataclass(frozen=True, slots=True)
class Stored:
    """A declared field that is something else on the wire: `load` makes it of that, and `dump` the reverse."""

    wire: Any
    load: Callable[[Any], Any] | None = None
    dump: Callable[[Any], Any] | None = None


@dataclass(frozen=True, slots=True)
class FieldPlan:
    """One field of a class.

    `kind` is kio's `kafka_type`, or "" for an entity, whose class is then `entity`. `nullable` refers to the array
    where `array` is set. `default` is the field's value where a message does not carry it.
    """

    name: str
    kind: str
    type_name: str
    entity: EntityClass | None
    array: bool
    nullable: bool
    tag: int | None
    default: Any
    since: int = 0
    until: int = NEWEST
    load: Callable[[Any], Any] | None = None
    dump: Callable[[Any], Any] | None = None


class Layout:
    """A declared class as it is on the wire in one version, and its parts too: without the fields of other versions.

    Other than a request, a record may have any number of elements.
    """

    most_elements = MAX_INT

    def __init__(self, cls: EntityClass, version: int, flexible: bool) -> None:
        self.__name__ = cls.__name__
        self.__flexible__ = flexible
        self.plans = tuple(
            plan if plan.entity is None else replace(plan, entity=layout(plan.entity, version, flexible))
            for plan in field_plans(cls)
            if plan.since <= version <= plan.until and (flexible or plan.tag is None)
        )


@cache
def layout(cls: EntityClass, version: int, flexible: bool = True) -> EntityClass:
    return Layout(cls, version, flexible)


def most_elements(cls: EntityClass) -> int:
    """How many elements the arrays of a message may have together."""
    return cls.most_elements if isinstance(cls, Layout) else MOST_ELEMENTS


def is_tuple(cls: EntityClass) -> bool:
    """Whether the entities are named tuples, not dataclasses."""
    return isinstance(cls, type) and issubclass(cls, tuple)


@cache
def field_plans(cls: EntityClass) -> tuple[FieldPlan, ...]:
    """The fields of `cls` in wire order; tagged ones are included, in the place where they are declared."""
    if isinstance(cls, Layout):
        return cls.plans
    if is_tuple(cls):
        return _declared_plans(cls, cls._field_defaults)
    if any(isinstance(field.type, str) for field in fields(cls)):  # the annotations are postponed: it is none of kio's
        return _declared_plans(cls, {field.name: field.default for field in fields(cls)})
    return tuple(_plan(field.name, field.type, field.metadata, field.default) for field in fields(cls))


def _declared_plans(cls: EntityClass, defaults: Mapping[str, Any]) -> tuple[FieldPlan, ...]:
    hints = get_type_hints(cls, include_extras=True)
    return tuple(_plan(name, hint, {}, defaults.get(name, MISSING)) for name, hint in hints.items())


def default_entity(cls: EntityClass, **values: Any) -> Entity:
    """An instance with these values, and every other field at its default."""
    return cls(**{plan.name: plan.default for plan in field_plans(cls)} | values)


def _plan(name: str, hint: Any, metadata: Mapping[Any, Any], default: Any) -> FieldPlan:
    marks: list[Any] = []
    declared = _without_marks(hint, marks)
    stored = next((mark for mark in marks if isinstance(mark, Stored)), Stored(declared))
    declared, nullable = _without_none(_without_marks(stored.wire, marks))
    declared = _without_marks(declared, marks)
    array = get_origin(declared) is tuple
    if array:
        declared, _ = _without_none(get_args(declared)[0])  # an array of UUIDs is a tuple of UUID | None
        declared = _without_marks(declared, marks)
    entity = declared if is_dataclass(declared) or hasattr(declared, "_fields") else None
    kind = (
        ""
        if entity is not None
        else next((m for m in marks if isinstance(m, str)), None) or str(metadata["kafka_type"])
    )
    placed = next((mark for mark in marks if isinstance(mark, Placed)), Placed(tag=metadata.get("tag")))
    default = default if placed.absent is MISSING else placed.absent
    return FieldPlan(
        name=name,
        kind=kind,
        type_name=str(getattr(declared, "__name__", "")),
        entity=entity,
        array=array,
        nullable=nullable,
        tag=placed.tag,
        default=_zero(kind, entity, array) if default is MISSING else default,
        since=placed.since,
        until=placed.until,
        load=stored.load,
        dump=stored.dump,
    )


def _without_marks(declared: Any, marks: list[Any]) -> Any:
    """The type that an `Annotated` is of; what it says more is added to `marks`."""
    if get_origin(declared) is not Annotated:
        return declared
    marks += declared.__metadata__
    return declared.__origin__


def _without_none(declared: Any) -> tuple[Any, bool]:
    if get_origin(declared) not in (UnionType, Union):
        return declared, False
    inner = [part for part in get_args(declared) if part is not NoneType]
    if len(inner) != 1:
        raise TypeError(f"a union of more than one type is no wire type: {declared}")
    return inner[0], True


def _zero(kind: str, entity: Any, array: bool) -> Any:
    if array:
        return ()
    if entity is not None:
        return default_entity(entity)
    if kind == "error_code":
        from kio.schema.errors import ErrorCode

        return ErrorCode.none
    return _ZEROS.get(kind, 0)


def mutable_twin(cls: EntityClass) -> type[Any]:
    """A class with the slots of `cls` and nothing else: setting its objects' `__class__` makes them ones of `cls`."""
    return type(cls.__name__, (), {"__slots__": cls.__slots__})


def tuple_maker(cls: EntityClass) -> Callable[[list[Any]], Any]:
    """The function that makes one of the named tuples of `cls` from all its values, without a Python-level call."""
    return tuple if hasattr(cls, "is_read_as_plain_tuple") else partial(tuple.__new__, cls)


def maker(cls: type[T]) -> type[T]:
    """A faster replacement for the constructor of `cls`, one of kio's classes, with the same parameters."""
    names: dict[str, Any] = {"new": mutable_twin(cls), "cls": cls}
    parameters, lines = [], []
    for each in fields(cls):  # type: ignore[arg-type]  # a dataclass
        if each.default is MISSING:
            parameters.append(each.name)
        else:
            names[f"default_{each.name}"] = each.default
            parameters.append(f"{each.name}=default_{each.name}")
        lines.append(f"    made.{each.name} = {each.name}\n")
    source = f"def make(*, {', '.join(parameters)}):\n    made = new()\n{''.join(lines)}"
    execute(f"{source}    made.__class__ = cls\n    return made\n", names)
    made: type[T] = names["make"]
    return made


_STEP = "    "


class GeneratedSource:
    """The common part of the generators of readers and writers: the lines of source for one entity.

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
