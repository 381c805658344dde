"""The columns of the source, as Spark and as Arrow know them."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from odradek_pipeline.datasource.errors import DataSourceError

HEADER_FIELDS = [pa.field("key", pa.string()), pa.field("value", pa.binary())]


@dataclass(frozen=True, slots=True)
class Column:
    """One column in both type systems."""

    spark: DataType
    arrow: pa.DataType


_HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))

COLUMNS: dict[str, Column] = {
    "key": Column(BinaryType(), pa.binary()),
    "value": Column(BinaryType(), pa.binary()),
    "headers": Column(_HEADERS, pa.list_(pa.struct(HEADER_FIELDS))),
    "topic": Column(StringType(), pa.string()),
    "partition": Column(IntegerType(), pa.int32()),
    "offset": Column(LongType(), pa.int64()),
    "timestamp": Column(TimestampType(), pa.timestamp("us", tz="UTC")),
    "timestampType": Column(IntegerType(), pa.int32()),
    "producer_id": Column(LongType(), pa.int64()),
    "producer_epoch": Column(IntegerType(), pa.int32()),
    "sequence": Column(IntegerType(), pa.int32()),
    "is_transactional": Column(BooleanType(), pa.bool_()),
}
"""In the order of the default schema; the first eight are the Kafka connector's."""


def spark_schema(names: tuple[str, ...]) -> StructType:
    """The schema with these columns."""
    return StructType([StructField(name, COLUMNS[name].spark) for name in names])


def names_of(schema: StructType) -> tuple[str, ...]:
    """The columns that a schema requests. Raises DataSourceError for an unknown column or a wrong type."""
    if not schema.fields:
        raise DataSourceError("The schema has no column.")
    for field in schema.fields:
        column = COLUMNS.get(field.name)
        if column is None:
            raise DataSourceError(f"There is no column {field.name}; there are {', '.join(COLUMNS)}.")
        if column.spark.simpleString() != field.dataType.simpleString():
            raise DataSourceError(
                f"Column {field.name} is {column.spark.simpleString()}, not {field.dataType.simpleString()}."
            )
    return tuple(field.name for field in schema.fields)
