"""Readers of kio's entity classes, generated from their fields as Python source.

Small requests arrive by the ten thousand a second, and a call for each field would take most of their time. So the
generated source reads in line and trusts its input: neighbouring numbers, with a length or count that follows them, by
one `struct` call; strings and arrays by the length they claim. A slice past the buffer's end is silently short, so the
final position is compared with the buffer's size. If that or anything else is wrong, `protocol.careful_reader` reads
the whole message again and reports the error.

No memory is reserved for a claimed length: an array grows element by element, and each is in the buffer or raises.
"""

from __future__ import annotations

from functools import cache
from struct import Struct, error
from typing import Any

from .careful_reader import (
    CONVERTED,
    Read,
    careful_reader,
    class_into,
    duration,
    field_reader,
    fields_in_order,
    fields_not_read,
    read_tags,
    tagged_readers,
)
from .compiled import execute
from .primitives import LONGEST_STRING, Buffer, TooManyElementsError, read_uvarint, too_many
from .schema import (
    DURATIONS,
    NUMBER_FORMATS,
    Entity,
    EntityClass,
    FieldPlan,
    GeneratedSource,
    field_plans,
    is_tuple,
    most_elements,
    mutable_twin,
    tuple_maker,
)

_COMPACT = """\
if length > 127:
    length, pos = read_uvarint(buf, pos - 1){limit}
if length:
    end = pos + length - 1
    value = {value}
    pos = end
else:
    {null}"""

_LEGACY = """\
if length >= 0:
    end = pos + length
    value = {value}
    pos = end
elif length == -1:
    {null}
else:
    raise error"""

_STRING_LIMIT = f"""
    if length > {LONGEST_STRING + 1}:
        raise error"""

_COMPACT_COUNT = """\
if length > 127:
    length, pos = read_uvarint(buf, pos - 1)
length -= 1"""

_READ = """\
def read(buf, pos):
    start = pos
    left = {most}
    try:
{body}
        if pos <= len(buf):
            return entity0, pos
    except TooManyElementsError:
        raise
    except (IndexError, ValueError, error):
        pass  # reported by the careful one
    return careful(buf, start)"""

_IN_RUNS = {kind: letter for kind, letter in (NUMBER_FORMATS | DURATIONS).items() if kind not in CONVERTED}
"""The letters of `struct` for the kinds that are read several at once."""

_DEPTH = 2
"""The indentation of the body's lines in the template."""


@cache
def entity_reader(cls: EntityClass, into: EntityClass) -> Read:
    """The function that reads bytes in the format of `cls` into an instance of `into`: the same class, or a newer one.

    A field that `into` lacks is read and dropped; one that `cls` lacks gets its default. The buffer is `bytes`.
    Raises DecodeError.
    """
    lines: list[str] = []
    names: dict[str, Any] = {
        "error": error,
        "duration": duration,
        "read_uvarint": read_uvarint,
        "read_tags": read_tags,
        "too_many": too_many,
        "TooManyElementsError": TooManyElementsError,
    }
    _EntitySource(cls, into, 0, lines, names).add()

    def careful(buf: Buffer, pos: int) -> tuple[Entity, int]:
        return careful_reader(cls, into)(buf, pos)  # made when first needed

    names["careful"] = careful
    execute(
        _READ.format(body="\n".join(lines), most=most_elements(cls)), names
    )  # made of the names of kio's fields alone
    read: Read = names["read"]
    return read


class _EntitySource(GeneratedSource):
    """Generates the lines that read one entity."""

    def __init__(
        self, cls: EntityClass, into: EntityClass, level: int, lines: list[str], names: dict[str, Any]
    ) -> None:
        super().__init__(level, _DEPTH, lines, names)
        self._cls = cls
        self._flexible: bool = cls.__flexible__
        self._into = into
        self._tuple = is_tuple(into)  # its values are collected in a list
        self._places = {plan.name: place for place, plan in enumerate(field_plans(into))}
        self._run: list[tuple[str, str]] = []  # struct letters, and the variables that take their values
        self._numbers: list[FieldPlan] = []  # the fields among these

    def add(self) -> None:
        entity = f"entity{self._level}"
        if self._tuple:
            self._add(f"{entity} = {self._name([plan.default for plan in field_plans(self._into)])}[:]")
        else:
            self._add(f"{entity} = {self._name(mutable_twin(self._into))}()")
            for plan in fields_not_read(self._cls, self._into):
                self._add(f"{entity}.{plan.name} = {self._name(plan.default)}")
        for plan in fields_in_order(self._cls):
            self._add_field(plan)
        if self._flexible:
            self._add_run("B", "tags")
        else:
            self._end_run()
        if not self._tuple:
            self._add(f"{entity}.__class__ = {self._name(self._into)}")
        if self._flexible:
            tagged = self._name(tagged_readers(self._cls, self._into))
            self._add(f"if tags:\n    pos = read_tags(buf, pos - 1, {entity}, {tagged})")
        if self._tuple:
            self._add(f"{entity} = {self._name(tuple_maker(self._into))}({entity})")

    def _add_field(self, plan: FieldPlan) -> None:
        if plan.kind in _IN_RUNS and not plan.array:
            self._run.append((_IN_RUNS[plan.kind], f"number{len(self._numbers)}"))
            self._numbers.append(plan)
        elif plan.kind == "string" and not plan.array:
            self._add_sized(plan, "h", "buf[pos:end].decode()", _STRING_LIMIT)
        elif plan.kind in ("bytes", "records") and not plan.array:
            self._add_sized(plan, "i", "buf[pos:end]")
        elif plan.array and plan.entity is not None:
            self._add_run("B" if self._flexible else "i", "length")
            self._add_array(plan, plan.entity, f"items{self._level}")
        else:
            self._end_run()
            self._add(f"value, pos = {self._name(field_reader(self._cls, self._into, plan))}(buf, pos)")
            self._add_set(plan, "value", loaded=True)

    def _add_sized(self, plan: FieldPlan, legacy: str, value: str, limit: str = "") -> None:
        """Read a value preceded by its length, for which `legacy` is the `struct` letter where it is not compact."""
        self._add_run("B" if self._flexible else legacy, "length")
        null = "value = None" if plan.nullable else "raise error"
        self._add((_COMPACT if self._flexible else _LEGACY).format(value=value, null=null, limit=limit))
        self._add_set(plan, "value")

    def _add_array(self, plan: FieldPlan, cls: EntityClass, items: str) -> None:
        if self._flexible:
            self._add(_COMPACT_COUNT)
        if plan.nullable:
            self._add(f"if length < -1:\n    raise error\n{items} = None if length < 0 else []")
        else:
            self._add(f"if length < 0:\n    raise error\n{items} = []")
        what = f"{self._cls.__name__}.{plan.name}"
        self._add(f"left -= length\nif left < 0:\n    raise error if length > len(buf) - pos else too_many({what!r})")
        self._add("for _ in range(length):")
        item = _EntitySource(cls, class_into(self._into, plan), self._level + 1, self._lines, self._names)
        item.add()
        self._add(f"    {items}.append(entity{self._level + 1})")
        self._add_set(plan, f"{items} if {items} is None else tuple({items})" if plan.nullable else f"tuple({items})")

    def _add_run(self, letter: str, variable: str) -> None:
        """Read the numbers collected so far, and one more that is no field."""
        self._run.append((letter, variable))
        self._end_run()

    def _end_run(self) -> None:
        letters = "".join(letter for letter, _ in self._run)
        variables = ", ".join(variable for _, variable in self._run)
        if letters == "B":
            self._add(f"{variables} = buf[pos]\npos += 1")
        elif letters:
            layout = Struct(f">{letters}")
            self._add(f"{variables}, = {self._name(layout.unpack_from)}(buf, pos)\npos += {layout.size}")
        for number, plan in enumerate(self._numbers):
            self._add_set(plan, f"duration(number{number})" if plan.kind in DURATIONS else f"number{number}")
        self._run, self._numbers = [], []

    def _add_set(self, plan: FieldPlan, value: str, *, loaded: bool = False) -> None:
        if plan.name in self._places:
            target = f"[{self._places[plan.name]}]" if self._tuple else f".{plan.name}"
            if plan.load is not None and not loaded:
                value = f"{self._name(plan.load)}({value})"
            self._add(f"entity{self._level}{target} = {value}")
