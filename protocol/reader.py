"""Readers of kio's entity classes, generated from their fields as Python source.

kio's own native reader is not used for what clients send: a huge compact array length makes it reserve memory for that
many elements, and the failed allocation aborts the process (kio 0.6.5). Here no length is believed before it is
compared with the bytes that are left.

The source reads in line what well-behaved clients send: neighbouring numbers by one ``struct`` call, short strings.
Anything else, and so anything that is wrong, it leaves to the field's reader in ``protocol.value_readers``. Small
requests come by the ten thousand a second, and a call for each field would take most of their time.
"""

from __future__ import annotations

from functools import cache
from struct import Struct, error
from textwrap import indent
from typing import Any

from protocol.primitives import INT16, Buffer, read_uvarint, skip_tagged_field
from protocol.schema import NUMBER_FORMATS, Entity, EntityClass, FieldPlan, field_plans
from protocol.value_readers import Read, array_reader, nullable_reader, number_array_reader, primitive_reader

_CONVERTED = {"float64", "error_code"}
"""Numbers that are not what ``struct`` gives."""

_STRING = """\
length = buf[pos] if pos < size else 128
if 0 < length < 128 and pos + length <= size:
    try:
        {name} = buf[pos + 1 : pos + length].decode()
        pos += length
    except UnicodeDecodeError:
        {name}, pos = read_{name}(buf, pos)
elif length == {null}:
    {name} = None
    pos += 1
else:
    {name}, pos = read_{name}(buf, pos)"""

_LEGACY_STRING = """\
length = int16(buf, pos)[0] if pos + 2 <= size else -2
if length >= 0 and pos + 2 + length <= size:
    try:
        {name} = buf[pos + 2 : pos + 2 + length].decode()
        pos += 2 + length
    except UnicodeDecodeError:
        {name}, pos = read_{name}(buf, pos)
elif length == {null}:
    {name} = None
    pos += 2
else:
    {name}, pos = read_{name}(buf, pos)"""

_TAGS = """\
if pos < size and not buf[pos]:
    pos += 1
else:
    pos = read_tags(buf, pos, entity, tagged)"""


@cache
def entity_reader(cls: EntityClass, into: EntityClass) -> Read:
    """Reads bytes in the format of ``cls`` to an instance of ``into``, the same class or that of a newer version.

    A field that ``into`` lacks is read and forgotten; one that ``cls`` lacks has its default. The buffer is ``bytes``.
    """
    return _Source(cls, into).compile()


class _Source:
    """The source of one reader, and the names it uses."""

    def __init__(self, cls: EntityClass, into: EntityClass) -> None:
        self._cls = cls
        self._into = {plan.name: plan for plan in field_plans(into)}
        self._lines = ["def read(buf, pos):", "    size = len(buf)", "    entity = new(cls)"]
        self._names: dict[str, Any] = {
            "new": object.__new__,
            "cls": into,
            "error": error,
            "int16": INT16.unpack_from,
            "read_tags": _read_tags,
        }
        for name in self._into:  # three times as fast as the constructor of a frozen dataclass
            self._names[f"set_{name}"] = into.__dict__[name].__set__

    def compile(self) -> Read:
        plans = field_plans(self._cls)
        in_order = [plan for plan in plans if plan.tag is None]
        self._add_defaults(self._into.keys() - {plan.name for plan in in_order})
        run: list[FieldPlan] = []
        for plan in in_order:
            if plan.kind in NUMBER_FORMATS and plan.kind not in _CONVERTED and not plan.array:
                run.append(plan)
                continue
            self._add_numbers(run)
            run = []
            self._add_field(plan)
        self._add_numbers(run)
        if self._cls.__flexible__:
            self._add_tags([plan for plan in plans if plan.tag is not None])
        self._add("return entity, pos")
        exec("\n".join(self._lines), self._names)  # made of the names of kio's fields alone
        read: Read = self._names["read"]
        return read

    def _add(self, source: str) -> None:
        self._lines.append(indent(source, "    "))

    def _add_set(self, plan: FieldPlan) -> None:
        if plan.name in self._into:
            self._add(f"set_{plan.name}(entity, {plan.name})")

    def _add_defaults(self, names: set[str]) -> None:
        for name in names:
            self._names[f"default_{name}"] = self._into[name].default
            self._add(f"set_{name}(entity, default_{name})")

    def _add_numbers(self, run: list[FieldPlan]) -> None:
        """Neighbouring numbers; where the buffer is too short, the field's reader says which one is missing."""
        if not run:
            return
        layout = Struct(">" + "".join(NUMBER_FORMATS[plan.kind] for plan in run))
        for plan in run:
            self._names[f"read_{plan.name}"] = self._value_reader(plan)
        unpack = f"unpack_{run[0].name}"
        self._names[unpack] = layout.unpack_from
        values = ", ".join(plan.name for plan in run)
        one_by_one = "\n".join(f"    {plan.name}, pos = read_{plan.name}(buf, pos)" for plan in run)
        self._add(f"try:\n    {values}, = {unpack}(buf, pos)\n    pos += {layout.size}\nexcept error:\n{one_by_one}")
        for plan in run:
            self._add_set(plan)

    def _add_field(self, plan: FieldPlan) -> None:
        self._names[f"read_{plan.name}"] = self._value_reader(plan)
        if plan.kind == "string" and not plan.array:
            template, null = (_STRING, 0) if self._cls.__flexible__ else (_LEGACY_STRING, -1)
            self._add(template.format(name=plan.name, null=null if plan.nullable else None))
        else:
            self._add(f"{plan.name}, pos = read_{plan.name}(buf, pos)")
        self._add_set(plan)

    def _add_tags(self, plans: list[FieldPlan]) -> None:
        self._names["tagged"] = {
            plan.tag: (self._value_reader(plan), self._names.get(f"set_{plan.name}")) for plan in plans
        }
        self._add(_TAGS)

    def _value_reader(self, plan: FieldPlan) -> Read:
        flexible: bool = self._cls.__flexible__
        what = f"{self._cls.__name__}.{plan.name}"
        if plan.entity is None:
            read = primitive_reader(plan.kind, flexible, plan.nullable and not plan.array, what)
        else:
            known = self._into.get(plan.name)
            read = entity_reader(plan.entity, plan.entity if known is None else known.entity)
        if plan.array and plan.kind in NUMBER_FORMATS and plan.kind not in _CONVERTED:
            return number_array_reader(NUMBER_FORMATS[plan.kind], read, flexible, plan.nullable, what)
        if plan.array:
            return array_reader(read, flexible, plan.nullable, what)
        return nullable_reader(read, plan.entity.__name__) if plan.entity is not None and plan.nullable else read


def _read_tags(buf: Buffer, pos: int, entity: Entity, tagged: dict[int, tuple[Read, Any]]) -> int:
    """Sets the fields that are in a section of tagged fields; gives the position after it."""
    count, pos = read_uvarint(buf, pos)
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
