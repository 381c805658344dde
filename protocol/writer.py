"""Writers of kio's entity classes, generated from their fields as Python source; several times faster than kio's own.

A writer for an old version reads its attributes, by name, from an object of the newest version; fields that the old
version lacks are left out. Neighbouring numbers are packed by one `struct` call; strings and arrays of entities are
written in line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import cache
from struct import Struct
from typing import Any, TypeAlias

from .compiled import execute
from .durations import MILLISECOND
from .primitives import INT16, INT32, LONGEST_STRING, append_uvarint
from .schema import DURATIONS, NUMBER_FORMATS, Entity, EntityClass, FieldPlan, GeneratedSource, field_plans, is_tuple
from .value_writers import (
    NULL_STRING,
    Write,
    array_writer,
    nullable_writer,
    number_array_writer,
    primitive_writer,
    string_length,
)

WriteFrame: TypeAlias = Callable[[Entity, int], bytearray]
Encode: TypeAlias = Callable[[Entity], bytes]

_PACKED = NUMBER_FORMATS | DURATIONS
_TAGGED_NUMBERS = NUMBER_FORMATS.keys() - {"float64"}

_COMPACT = """\
value = {get}
if value is None:
    out += {null!r}
else:
    value = {data}
    if len(value) < 127:
        out.append(len(value) + 1)
    else:
        append_uvarint(out, ({length}) + 1)
    out += value"""

_LEGACY = """\
value = {get}
if value is None:
    out += {null!r}
else:
    value = {data}
    out += {size}({length})
    out += value"""

_COMPACT_ARRAY = """\
items = {get}
if items is None:
    out += {null!r}
elif len(items) < 127:
    out.append(len(items) + 1)
else:
    append_uvarint(out, len(items) + 1)
for {item} in items or ():"""

_ARRAY = """\
items = {get}
out += {null!r} if items is None else int32(len(items))
for {item} in items or ():"""

_NULL = {
    (True, True): b"\x00",
    (True, False): b"\x01",
    (False, True): b"\xff\xff\xff\xff",
    (False, False): b"\x00\x00\x00\x00",
}
"""For arrays and bytes, by flexible and nullable; where the version has no null, it is written as empty."""


_NAMES: dict[str, Any] = {
    "append_uvarint": append_uvarint,
    "int16": INT16.pack,
    "int32": INT32.pack,
    "duration": timedelta,
    "millisecond": MILLISECOND,
    "pack_size": INT32.pack_into,
    "string_length": string_length,
}

_STRING_LENGTH = f"len(value) if len(value) <= {LONGEST_STRING} else string_length(value)"

_SIZE_AND_HEADER = ("i", "0"), ("i", "correlation_id")
_NO_TAGS = ("B", "0")


@cache
def entity_writer(cls: EntityClass, source: EntityClass) -> Write:
    """A function `(out, entity)` that appends `entity` in the format of `cls`.

    The entity's attributes are those of `source`. A field that `source` lacks is written as its default, unless the
    entity has an attribute of that name.
    """
    lines = ["def write(out, entity0):"]
    names = dict(_NAMES)
    _EntitySource(cls, source, 0, lines, names).add()
    execute("\n".join(lines), names)
    write: Write = names["write"]
    return write


@cache
def frame_writer(cls: EntityClass, source: EntityClass, header_version: int) -> WriteFrame:
    """A function `(response, correlation id)` that returns the whole frame, size included; else as `entity_writer`."""
    lines = ["def write(entity0, correlation_id):"]
    names = dict(_NAMES)
    header = (*_SIZE_AND_HEADER, _NO_TAGS) if header_version == 1 else _SIZE_AND_HEADER
    _EntitySource(cls, source, 0, lines, names, header).add()
    execute("\n".join((*lines, "    pack_size(out, 0, len(out) - 4)", "    return out")), names)
    write: WriteFrame = names["write"]
    return write


def record_encoder(cls: EntityClass, source: EntityClass, number: int) -> Encode:
    """A function that returns an entity's bytes after an int16, which is `number`; else as `entity_writer`."""
    lines = ["def encode(entity0):"]
    names = dict(_NAMES)
    _EntitySource(cls, source, 0, lines, names, (("h", str(number)),)).add()
    execute("\n".join((*lines, "    return bytes(out)")), names)
    encode: Encode = names["encode"]
    return encode


class _EntitySource(GeneratedSource):
    """Generates the lines that write one entity; if a `header` is given, `out` begins with its numbers."""

    def __init__(
        self,
        cls: EntityClass,
        source: EntityClass,
        level: int,
        lines: list[str],
        names: dict[str, Any],
        header: Sequence[tuple[str, str]] = (),
    ) -> None:
        super().__init__(level, 1, lines, names)
        self._cls = cls
        self._flexible: bool = cls.__flexible__
        self._known = {plan.name: plan for plan in field_plans(source)}
        self._tuple = is_tuple(source)  # its values are given names of their own
        self._begins = bool(header)
        self._run = list(header)  # struct letters, and the source of their values

    def add(self) -> None:
        if self._tuple:
            names = ", ".join(map(self._variable, self._known))
            self._add(f"{names}, = entity{self._level}")
        else:
            self._add("pass")  # there may be nothing else
        tagged: list[FieldPlan] = []
        for plan in field_plans(self._cls):
            if plan.tag is not None:
                tagged.append(plan)
            elif plan.kind in _PACKED and not plan.array and plan.name in self._known:
                self._run.append((_PACKED[plan.kind], self._number(plan)))
            else:
                self._end_run()
                self._add_field(plan)
        self._end_run()
        if tagged:
            self._add_tags(sorted(tagged, key=lambda plan: plan.tag or 0))
        elif self._flexible:
            self._add("out.append(0)")

    def _end_run(self) -> None:
        if self._run:
            pack = self._name(Struct(">" + "".join(letter for letter, _ in self._run)).pack)
            packed = f"{pack}({', '.join(source for _, source in self._run)})"
            self._add(f"out = bytearray({packed})" if self._begins else f"out += {packed}")
        self._run = []
        self._begins = False

    def _number(self, plan: FieldPlan) -> str:
        value = self._get(plan)
        return (
            f"{value} // millisecond if {value}.__class__ is duration else {value}" if plan.kind in DURATIONS else value
        )

    def _get(self, plan: FieldPlan) -> str:
        """The source that reads the field from the entity."""
        if plan.name in self._known:
            value = self._variable(plan.name) if self._tuple else f"entity{self._level}.{plan.name}"
            return value if plan.dump is None else f"{self._name(plan.dump)}({value})"
        return f"getattr(entity{self._level}, {plan.name!r}, {self._name(plan.default)})"

    def _variable(self, name: str) -> str:
        return f"{name}_{self._level}"

    def _add_field(self, plan: FieldPlan) -> None:
        if plan.kind == "string" and not plan.array:
            null = NULL_STRING[self._flexible, plan.nullable]
            self._add_sized(plan, "value.encode()", "int16", _STRING_LENGTH, null)
        elif plan.kind in ("bytes", "records") and not plan.array:
            self._add_sized(plan, "value", "int32", "len(value)", _NULL[self._flexible, plan.nullable])
        elif plan.array and plan.entity is not None:
            template = _COMPACT_ARRAY if self._flexible else _ARRAY
            null = _NULL[self._flexible, plan.nullable]
            self._add(template.format(get=self._get(plan), null=null, item=f"entity{self._level + 1}"))
            source = self._source_of(plan)
            _EntitySource(plan.entity, source, self._level + 1, self._lines, self._names).add()
        else:
            self._add(f"{self._name(self._value_writer(plan))}(out, {self._get(plan)})")

    def _add_sized(self, plan: FieldPlan, data: str, size: str, length: str, null: bytes) -> None:
        """Write a value after its length, which `size` packs where it is not compact."""
        template = _COMPACT if self._flexible else _LEGACY
        self._add(template.format(get=self._get(plan), data=data, size=size, length=length, null=null))

    def _add_tags(self, plans: list[FieldPlan]) -> None:
        """Write the tagged fields that are not at their default, in the order of their tags."""
        values, tests, tagged = [], [], []
        for plan in plans:
            write, default = self._value_writer(plan), plan.default if plan.dump is None else plan.dump(plan.default)
            encoded_default = bytearray()
            write(encoded_default, default)
            values.append(self._get(plan))
            tests.append(f"{values[-1]} is not None" if default is None else f"{values[-1]} != {self._name(default)}")
            tagged.append((plan.tag, write, default, encoded_default))
        if all(plan.kind in _TAGGED_NUMBERS and not plan.array for plan in plans):
            self._add(f"out.append({' + '.join(f'({test})' for test in tests)})")
            for plan, value, test in zip(plans, values, tests, strict=True):
                layout = Struct(f">BB{NUMBER_FORMATS[plan.kind]}")
                self._add(f"if {test}:\n    out += {self._name(layout.pack)}({plan.tag}, {layout.size - 2}, {value})")
        else:
            write_tags = f"{self._name(_tags_writer(tagged))}(out, ({', '.join(values)},))"
            self._add(f"if {' or '.join(tests)}:\n    {write_tags}\nelse:\n    out.append(0)")

    def _value_writer(self, plan: FieldPlan) -> Write:
        if plan.entity is None:
            if plan.array and plan.kind in NUMBER_FORMATS:
                return number_array_writer(NUMBER_FORMATS[plan.kind], self._flexible, plan.nullable)
            write = primitive_writer(plan.kind, self._flexible, plan.nullable and not plan.array)
        else:
            write = entity_writer(plan.entity, self._source_of(plan))
            if plan.nullable and not plan.array:
                return nullable_writer(write, plan.tag is not None)
        return array_writer(write, self._flexible, plan.nullable) if plan.array else write

    def _source_of(self, plan: FieldPlan) -> EntityClass:
        """The class whose attributes a field's entities have."""
        known = self._known.get(plan.name)
        return plan.entity if known is None or known.entity is None else known.entity


def _tags_writer(tagged: list[tuple[Any, Write, Any, bytearray]]) -> Write:
    """The writer of a section of tagged fields from their values.

    `tagged` has tags, writers, defaults, and their bytes: a value that is written as the default is one too.
    """

    def write_tags(out: bytearray, values: tuple[Any, ...]) -> None:
        count = 0
        section = bytearray()
        for (tag, write, default, encoded_default), value in zip(tagged, values, strict=True):
            if value == default:
                continue
            encoded = bytearray()
            write(encoded, value)
            if encoded != encoded_default:
                count += 1
                append_uvarint(section, tag)
                append_uvarint(section, len(encoded))
                section += encoded
        append_uvarint(out, count)
        out += section

    return write_tags
