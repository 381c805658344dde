"""What one column can hold that values of several types come to: the union of structs by name, and types that widen.

A table's column has one type for all its rows. A type may be widened in a table where all readers of the format can do
so without the old files being written again: those of `IN_PLACE`. A column that does not exist yet may be as wide as
the first types ask for. A value that is narrower than its column fits as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import types as T

WIDER: Mapping[type[T.DataType], tuple[type[T.DataType], ...]] = {
    T.ShortType: (T.IntegerType, T.LongType, T.FloatType, T.DoubleType),
    T.IntegerType: (T.LongType, T.DoubleType),
    T.LongType: (T.DoubleType,),
    T.FloatType: (T.DoubleType,),
}
IN_PLACE: Mapping[str, Mapping[type[T.DataType], tuple[type[T.DataType], ...]]] = {
    "iceberg": {T.IntegerType: (T.LongType,), T.FloatType: (T.DoubleType,), T.DecimalType: (T.DecimalType,)},
    "delta": {},
    "parquet": {},
}
"""How the type of a column in a table with rows may change, by format."""


class NoColumn(ValueError):  # noqa: N818 - what is wrong is the schema
    """There is no type for a column; the message says for which field, and why."""


class MillisOfDay(T.IntegerType):
    """What `from_avro` gives for time-millis; the column has microseconds."""


def column_type(read: T.DataType, path: str = "value") -> T.DataType:
    """The column's type for values that come as `read`: fields that can only be null are left out. Raises NoColumn."""
    match read:
        case T.StructType():
            kept = [part for part in read.fields if not isinstance(part.dataType, T.NullType)]
            if not kept:
                raise NoColumn(f"{path} has no field")
            return T.StructType(
                [T.StructField(part.name, column_type(part.dataType, f"{path}.{part.name}")) for part in kept]
            )
        case T.ArrayType():
            return T.ArrayType(column_type(read.elementType, path))
        case T.MapType():
            return T.MapType(T.StringType(), column_type(read.valueType, path))
        case T.NullType():
            raise NoColumn(f"{path} can only be null")
        case MillisOfDay():
            return T.LongType()
    return read


def union(column: T.DataType, new: T.DataType, table_format: str | None = None, path: str = "value") -> T.DataType:
    """The type of a column that has values of both. `table_format`: of a table that has the first; None: there is none.

    Names are compared without regard to case, as Spark does, and the first counts. Raises NoColumn.
    """
    if column == new:
        return column
    match column, new:
        case T.StructType(), T.StructType():
            return _struct(column, new, table_format, path)
        case T.ArrayType(), T.ArrayType():
            return T.ArrayType(union(column.elementType, new.elementType, table_format, path))
        case T.MapType(), T.MapType():
            return T.MapType(T.StringType(), union(column.valueType, new.valueType, table_format, path))
    if _holds(column, new):
        return column
    wider = _wider(column, new)
    if wider is not None and (table_format is None or may_become(column, wider, table_format)):
        return wider
    there = "in an earlier schema" if table_format is None else "in the table"
    raise NoColumn(f"field {path} is {column.simpleString()} {there} and cannot become {new.simpleString()}")


def _struct(column: T.StructType, new: T.StructType, table_format: str | None, path: str) -> T.StructType:
    coming = {part.name.lower(): part for part in new.fields}
    fields = []
    for part in column.fields:
        other = coming.pop(part.name.lower(), None)
        kind = part.dataType
        if other is not None:
            kind = union(kind, other.dataType, table_format, f"{path}.{part.name}")
        fields.append(T.StructField(part.name, kind))
    return T.StructType([*fields, *(T.StructField(part.name, part.dataType) for part in coming.values())])


def _holds(column: T.DataType, new: T.DataType) -> bool:
    """Whether a column can have the values of another type as they are, or as Avro's own promotions have them."""
    if isinstance(column, T.DecimalType) and isinstance(new, T.DecimalType):
        whole = column.precision - column.scale >= new.precision - new.scale
        return whole and column.scale >= new.scale
    return type(column) in WIDER.get(type(new), ())


def _wider(column: T.DataType, new: T.DataType) -> T.DataType | None:
    """The narrowest type that holds both; None if there is none."""
    if _holds(new, column):
        return new
    match column, new:
        case T.DecimalType(), T.DecimalType():
            scale = max(column.scale, new.scale)
            digits = max(column.precision - column.scale, new.precision - new.scale) + scale
            return T.DecimalType(digits, scale) if digits <= 38 else None
        case (T.FloatType(), T.IntegerType() | T.LongType()) | (T.IntegerType() | T.LongType(), T.FloatType()):
            return T.DoubleType()
    return None


def grown(column: T.StructType, new: T.StructType, table_format: str) -> T.StructType:
    """The first with the fields that the second has besides. What both have keeps its type, unless it can widen."""
    found = _grown(column, new, table_format)
    assert isinstance(found, T.StructType)
    return found


def _grown(column: T.DataType, new: T.DataType, table_format: str) -> T.DataType:
    match column, new:
        case T.StructType(), T.StructType():
            coming = {part.name.lower(): part for part in new.fields}
            fields = []
            for part in column.fields:
                other = coming.pop(part.name.lower(), part).dataType
                kind = _grown(part.dataType, other, table_format)
                fields.append(T.StructField(part.name, kind, part.nullable, part.metadata))
            return T.StructType([*fields, *coming.values()])
        case T.ArrayType(), T.ArrayType():
            return T.ArrayType(_grown(column.elementType, new.elementType, table_format), column.containsNull)
    return new if may_become(column, new, table_format) else column


def may_become(column: T.DataType, wider: T.DataType, table_format: str) -> bool:
    """Whether a column with rows can be of a wider type from now on, for every reader of the format."""
    if type(wider) not in IN_PLACE[table_format].get(type(column), ()):
        return False
    return not isinstance(column, T.DecimalType) or column.scale == _scale(wider)


def _scale(kind: Any) -> int:
    return int(kind.scale)
