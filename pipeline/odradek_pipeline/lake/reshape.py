"""A value of one type as a value of the type of its column: fields by name, nulls for those it lacks, numbers wider."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import types as T

from odradek_pipeline.lake.widening import MillisOfDay

if TYPE_CHECKING:
    from pyspark.sql import Column

MICROS = 1000
"""In a millisecond."""


def reshaped(value: Column, read: T.DataType, column: T.DataType) -> Column:
    """`read` is the value's type, `column` a union of it and others (`widening`)."""
    from pyspark.sql import functions as F

    if read == column:
        return value
    match read, column:
        case T.StructType(), T.StructType():
            return F.when(value.isNotNull(), F.struct(*_fields(value, read, column)))
        case T.ArrayType(), T.ArrayType():
            return F.transform(value, lambda one: reshaped(one, read.elementType, column.elementType))
        case T.MapType(), T.MapType():
            return F.transform_values(value, lambda _, one: reshaped(one, read.valueType, column.valueType))
        case MillisOfDay(), _:
            return value.cast("long") * F.lit(MICROS)
    return value.cast(column)


def _fields(value: Column, read: T.StructType, column: T.StructType) -> list[Column]:
    from pyspark.sql import functions as F

    there = {part.name.lower(): part for part in read.fields}
    found = []
    for part in column.fields:
        own = there.get(part.name.lower())
        if own is None:
            found.append(F.lit(None).cast(part.dataType).alias(part.name))
        else:
            found.append(reshaped(value.getField(own.name), own.dataType, part.dataType).alias(part.name))
    return found
