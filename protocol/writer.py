"""Writers of kio's entity classes, generated from their fields as Python source; several times faster than kio's own.

A writer for an old version reads its attributes, by name, from an object of the newest version; fields that the old
version lacks are left out. Neighbouring numbers are packed by one ``struct`` call, and short strings written in line.
"""

from __future__ import annotations

from functools import cache
from struct import Struct
from textwrap import indent
from typing import Any

from protocol.primitives import INT16, append_uvarint
from protocol.schema import NUMBER_FORMATS, EntityClass, FieldPlan, default_entity, field_plans
from protocol.value_writers import (
    NULL_STRING,
    Write,
    array_writer,
    milliseconds,
    nullable_writer,
    number_array_writer,
    primitive_writer,
)

_DURATIONS = {"timedelta_i32": "i", "timedelta_i64": "q"}
_PACKED = NUMBER_FORMATS | _DURATIONS

_STRING = """\
value = {get}
if value is None:
    out += {null!r}
else:
    value = value.encode()
    if len(value) < 127:
        out.append(len(value) + 1)
    else:
        append_uvarint(out, len(value) + 1)
    out += value"""

_LEGACY_STRING = """\
value = {get}
if value is None:
    out += {null!r}
else:
    value = value.encode()
    out += int16(len(value))
    out += value"""


@cache
def entity_writer(cls: EntityClass, source: EntityClass) -> Write:
    """A function ``(out, entity)`` that appends ``entity`` in the format of ``cls``.

    The entity's attributes are those of ``source``; a field that ``source`` lacks is written as its default, unless
    the entity has the attribute all the same.
    """
    return _Source(cls, source).compile()


class _Source:
    """The source of one writer, and the names it uses."""

    def __init__(self, cls: EntityClass, source: EntityClass) -> None:
        self._cls = cls
        self._flexible: bool = cls.__flexible__
        self._known = {plan.name: plan for plan in field_plans(source)}
        self._lines = ["def write(out, entity):", "    pass"]
        self._names: dict[str, Any] = {"append_uvarint": append_uvarint, "int16": INT16.pack, "ms": milliseconds}

    def compile(self) -> Write:
        run: list[FieldPlan] = []
        tagged: list[FieldPlan] = []
        for plan in field_plans(self._cls):
            if plan.tag is not None:
                tagged.append(plan)
            elif plan.kind in _PACKED and not plan.array and plan.name in self._known:
                run.append(plan)
            else:
                self._add_numbers(run)
                run = []
                self._add_field(plan)
        self._add_numbers(run)
        if tagged:
            self._add_tags(sorted(tagged, key=lambda plan: plan.tag or 0))
        elif self._flexible:
            self._add("out.append(0)")
        exec("\n".join(self._lines), self._names)  # made of the names of kio's fields alone
        write: Write = self._names["write"]
        return write

    def _add(self, source: str) -> None:
        self._lines.append(indent(source, "    "))

    def _add_numbers(self, run: list[FieldPlan]) -> None:
        if not run:
            return
        pack = f"pack_{run[0].name}"
        self._names[pack] = Struct(">" + "".join(_PACKED[plan.kind] for plan in run)).pack
        self._add(f"out += {pack}({', '.join(self._number(plan) for plan in run)})")

    def _number(self, plan: FieldPlan) -> str:
        value = self._get(plan)
        return f"{value} if {value}.__class__ is int else ms({value})" if plan.kind in _DURATIONS else value

    def _get(self, plan: FieldPlan) -> str:
        """The source that takes the field from the entity."""
        if plan.name in self._known:
            return f"entity.{plan.name}"
        self._names[f"default_{plan.name}"] = plan.default
        return f"getattr(entity, {plan.name!r}, default_{plan.name})"

    def _add_field(self, plan: FieldPlan) -> None:
        if plan.kind == "string" and not plan.array:
            template = _STRING if self._flexible else _LEGACY_STRING
            self._add(template.format(get=self._get(plan), null=NULL_STRING[self._flexible, plan.nullable]))
        else:
            self._names[f"write_{plan.name}"] = self._value_writer(plan)
            self._add(f"write_{plan.name}(out, {self._get(plan)})")

    def _add_tags(self, plans: list[FieldPlan]) -> None:
        """The tagged fields, in the order of their tags, that are not at their default."""
        defaults = default_entity(self._cls)
        tagged = []
        for plan in plans:
            write = self._value_writer(plan)
            encoded_default = bytearray()
            write(encoded_default, getattr(defaults, plan.name))
            tagged.append((plan.tag, write, encoded_default))
        self._names["write_tags"] = _tags_writer(tagged)
        self._add(f"write_tags(out, ({', '.join(self._get(plan) for plan in plans)},))")

    def _value_writer(self, plan: FieldPlan) -> Write:
        if plan.entity is None:
            if plan.array and plan.kind in NUMBER_FORMATS:
                return number_array_writer(NUMBER_FORMATS[plan.kind], self._flexible, plan.nullable)
            write = primitive_writer(plan.kind, self._flexible, plan.nullable and not plan.array)
        else:
            known = self._known.get(plan.name)
            write = entity_writer(plan.entity, plan.entity if known is None or known.entity is None else known.entity)
            if plan.nullable and not plan.array:
                return nullable_writer(write)
        return array_writer(write, self._flexible, plan.nullable) if plan.array else write


def _tags_writer(tagged: list[tuple[Any, Write, bytearray]]) -> Write:
    """Writes a section of tagged fields from their values, each with its tag, its writer and its encoded default."""

    def write_tags(out: bytearray, values: tuple[Any, ...]) -> None:
        count = 0
        section = bytearray()
        for (tag, write, encoded_default), value in zip(tagged, values, strict=True):
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
