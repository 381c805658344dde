"""The columns of the source, as Spark and as Arrow know them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from odradek_pipeline.datasource.errors import DataSourceError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

HEADER_FIELDS = [pa.field("key", pa.string()), pa.field("value", pa.binary())]


@dataclass(frozen=True, slots=True)
class Column:
    """One column in both type systems; Spark's type by its simple name, as `audit` reads files where no Spark is."""

    spark: str
    arrow: pa.DataType


COLUMNS: dict[str, Column] = {
    "key": Column("binary", pa.binary()),
    "value": Column("binary", pa.binary()),
    "headers": Column("array<struct<key:string,value:binary>>", pa.list_(pa.struct(HEADER_FIELDS))),
    "topic": Column("string", pa.string()),
    "partition": Column("int", pa.int32()),
    "offset": Column("bigint", pa.int64()),
    "timestamp": Column("timestamp", pa.timestamp("us", tz="UTC")),
    "timestampType": Column("int", pa.int32()),
    "producer_id": Column("bigint", pa.int64()),
    "producer_epoch": Column("int", pa.int32()),
    "sequence": Column("int", pa.int32()),
    "is_transactional": Column("boolean", pa.bool_()),
}
"""In the order of the default schema; the first eight are the Kafka connector's."""


def spark_schema(names: tuple[str, ...]) -> StructType:
    """The schema with these columns."""
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(name, _spark_type(COLUMNS[name].spark)) for name in names])


def _spark_type(simple: str) -> DataType:
    from pyspark.sql import types

    match simple:
        case "binary":
            return types.BinaryType()
        case "string":
            return types.StringType()
        case "int":
            return types.IntegerType()
        case "bigint":
            return types.LongType()
        case "timestamp":
            return types.TimestampType()
        case "boolean":
            return types.BooleanType()
    pair = [types.StructField("key", types.StringType()), types.StructField("value", types.BinaryType())]
    return types.ArrayType(types.StructType(pair))


def names_of(schema: StructType) -> tuple[str, ...]:
    """The columns that a schema requests. Raises DataSourceError for an unknown column or a wrong type."""
    if not schema.fields:
        raise DataSourceError("The schema has no column.")
    for field in schema.fields:
        column = COLUMNS.get(field.name)
        if column is None:
            raise DataSourceError(f"There is no column {field.name}; there are {', '.join(COLUMNS)}.")
        if column.spark != field.dataType.simpleString():
            raise DataSourceError(f"Column {field.name} is {column.spark}, not {field.dataType.simpleString()}.")
    return tuple(field.name for field in schema.fields)
