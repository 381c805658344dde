"""Fields that a JSON value has and its schema does not name: how they are called, and what is in them.

They are counted by name (`lines.pieces`), which in an array is that of any element, and kept by place
(`lines[1].pieces`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from odradek_pipeline import json_text
from odradek_pipeline.lake.schemas import has_struct

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType

MAP = "map<string, string>"
Told = Callable[["Column", "Column | None", Collection[str], "Column | None"], "Column"]
"""What to tell of an object: its text, its fields if it was parsed before, the names that are known, and its place."""


def names(text: Column, kind: DataType) -> Column:
    """array<string>, without doubles, of a JSON value's text; null and other JSON than objects have none."""
    from pyspark.sql import functions as F

    return F.array_distinct(_walk(text, kind, None, _names, "array<string>", numbered=False))


def contents(text: Column, kind: DataType) -> Column:
    """map<string,string>: texts as they are, anything else as JSON; null if there is none.

    Places are not always told apart (a field may be called `a.b`), and JSON may have a field twice: one of them counts.
    """
    from pyspark.sql import functions as F

    entries = _walk(text, kind, None, _contents, "array<struct<key: string, value: string>>", numbered=True)

    def single(ordered: Column) -> Column:
        def is_last(entry: Column, number: Column) -> Column:
            behind = F.get(ordered, number + 1)
            return behind.isNull() | (behind["key"] != entry["key"])

        return F.map_from_entries(F.filter(ordered, is_last))

    # The array is computed once, however often its elements are compared.
    found = F.get(F.transform(F.array(F.array_sort(entries)), single), F.lit(0))
    return F.when(F.size(found) > 0, found)


def _names(text: Column, fields: Column | None, known: Collection[str], place: Column | None) -> Column:
    from pyspark.sql import functions as F

    keys = F.json_object_keys(text) if fields is None else F.map_keys(fields)
    return F.transform(F.array_except(keys, _strings(known)), lambda name: _below(place, name))


def _contents(text: Column, fields: Column | None, known: Collection[str], place: Column | None) -> Column:
    from pyspark.sql import functions as F

    entries = F.map_entries(_fields(text) if fields is None else fields)
    others = F.filter(entries, lambda entry: ~F.array_contains(_strings(known), entry["key"]))
    return F.transform(
        others, lambda entry: F.struct(_below(place, entry["key"]).alias("key"), entry["value"].alias("value"))
    )


def _walk(text: Column, kind: DataType, place: Column | None, told: Told, result: str, *, numbered: bool) -> Column:
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, MapType, StringType, StructType

    nothing = F.array().cast(result)

    def below(value: Column, inner: DataType, where: Column | None) -> Column:
        return _walk(value, inner, where, told, result, numbered=numbered)

    match kind:
        case ArrayType() if has_struct(kind):
            elements = F.from_json(text, ArrayType(StringType()), json_text.STRICT)
            parts = [
                F.flatten(
                    F.transform(
                        elements,
                        lambda one, number: below(one, kind.elementType, _at(place, number) if numbered else place),
                    )
                )
            ]
        case MapType() if has_struct(kind):
            entries = F.map_entries(_fields(text))
            parts = [
                F.flatten(
                    F.transform(
                        entries,
                        lambda entry: below(
                            entry["value"], kind.valueType, _below(place, entry["key"]) if numbered else place
                        ),
                    )
                )
            ]
        case StructType() if not any(has_struct(part.dataType) for part in kind.fields):
            parts = [told(text, None, kind.names, place)]
        case StructType():
            fields = _fields(text)
            parts = [told(text, fields, kind.names, place)]
            parts += [
                below(fields[part.name], part.dataType, _below(place, F.lit(part.name)))
                for part in kind.fields
                if has_struct(part.dataType)
            ]
        case _:
            return nothing
    return F.concat(*(F.coalesce(part, nothing) for part in parts))


def _fields(text: Column) -> Column:
    from pyspark.sql import functions as F

    return F.from_json(text, MAP, json_text.STRICT)


def _below(place: Column | None, name: Column) -> Column:
    from pyspark.sql import functions as F

    return name if place is None else F.concat(place, F.lit("."), name)


def _at(place: Column | None, number: Column) -> Column:
    from pyspark.sql import functions as F

    return F.concat(F.lit("") if place is None else place, F.lit("["), number.cast("string"), F.lit("]"))


def _strings(values: Collection[str]) -> Column:
    from pyspark.sql import functions as F

    return F.array(*map(F.lit, values)).cast("array<string>")
