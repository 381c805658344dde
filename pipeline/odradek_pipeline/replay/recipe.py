"""From rows to records: which column becomes what, which task writes a row, and the one order of a task's rows."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from odradek_pipeline.files import quoted
from odradek_pipeline.reasons import reason
from odradek_pipeline.replay.progress import ReplayRefused

AS_JSON = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""Spark would truncate times to milliseconds."""

LAKE_COLUMNS = {"topic", "partition", "offset", "timestamp", "timestamp_type", "key", "headers", "value", "date"}
"""What a table of `odradek-pipeline lake` has: only `value` is what was in the topic's value."""

RECORD_COLUMNS = ("topic", "key", "value", "headers", "timestamp_ms")


@dataclass(frozen=True, slots=True)
class Recipe:
    """Which parts of a row become the key, the value, ... of its record; columns named as in `DataFrame.__getitem__`.

    Either `topic` or `topic_column` is set. `key_expression` is SQL; with neither it nor `key_column`, records have no
    key. `value_column` None: the `value` of a lake's table; of others a JSON object of all columns that are not used
    otherwise. `order_by` orders the records of a key; without it their order is the same in every run, but means
    nothing.
    """

    topic: str | None
    topic_column: str | None = None
    key_column: str | None = None
    key_expression: str | None = None
    value_column: str | None = None
    headers_column: str | None = None
    timestamp_column: str | None = None
    order_by: tuple[str, ...] = ()

    def manifest(self) -> dict[str, Any]:
        """The recipe as a plain JSON object."""
        return {**asdict(self), "order_by": list(self.order_by)}


def records(
    frame: DataFrame,
    recipe: Recipe,
    tasks: int,
    done: Collection[int] = (),
    encode: Callable[[DataFrame], DataFrame] | None = None,
) -> DataFrame:
    """One partition per task (with the task's number), with the columns that `pipeline.replay.writer` reads.

    The rows of the tasks in `done` are left out before the shuffle. `encode` makes bytes of the column `value`; without
    it bytes, texts and JSON are made of it here. Raises ReplayRefused if the recipe does not fit.
    """
    try:
        shaped = frame.select(*_record_columns(frame, recipe, as_bytes=encode is None), *_order_columns(frame, recipe))
        _check(frame, shaped)
    except PySparkException as error:
        raise ReplayRefused(f"the columns do not fit the source: {reason(error)}") from None
    if encode is not None:
        shaped = encode(shaped)
    names = [name for name in RECORD_COLUMNS if name in shaped.columns]
    order = [name for name in shaped.columns if name not in names]
    # A null key has no order to keep, so its rows are spread by their values.
    spread = F.when(F.isnull("key"), F.col("value")).otherwise(F.col("key"))
    # Spark's own way from a hash to a partition (HashPartitioning); the tasks check it.
    numbered = shaped.withColumn("spread", spread).withColumn("task", F.pmod(F.hash("spread"), F.lit(tasks)))
    numbered = numbered.withColumn("digest", F.xxhash64(*names, *(F.isnull(name) for name in names)))
    if done:
        numbered = numbered.where(~F.col("task").isin(sorted(done)))
    # Rows that are equal in all of these make equal records, whose order does not matter.
    ordered = numbered.repartition(tasks, "spread").sortWithinPartitions(*order, "digest", *names)
    return ordered.select(*names, "digest", "task")


def value_type(frame: DataFrame, recipe: Recipe) -> T.DataType:
    """What the values are before they are bytes. Raises ReplayRefused."""
    try:
        return frame.select(_value(frame, recipe).alias("it")).schema["it"].dataType
    except PySparkException as error:
        raise ReplayRefused(f"the columns do not fit the source: {reason(error)}") from None


def _value(frame: DataFrame, recipe: Recipe) -> Column:
    """The column of the values, the `value` of a lake's table, or the other columns as a struct."""
    name = _value_column(frame, recipe)
    return frame[name] if name is not None else _others(frame, recipe)


def _value_column(frame: DataFrame, recipe: Recipe) -> str | None:
    return recipe.value_column or ("value" if set(frame.columns) >= LAKE_COLUMNS else None)


def _record_columns(frame: DataFrame, recipe: Recipe, as_bytes: bool) -> list[Column]:
    found = []
    if recipe.topic_column is not None:
        found.append(frame[recipe.topic_column].cast("string").alias("topic"))
    if recipe.key_expression is not None:
        key = frame.select(F.expr(recipe.key_expression).alias("key"))
        found.append(_as_bytes(F.expr(recipe.key_expression), key.schema["key"].dataType, "the key").alias("key"))
    elif recipe.key_column is not None:
        found.append(_column_bytes(frame, recipe.key_column).alias("key"))
    else:
        found.append(F.lit(None).cast("binary").alias("key"))
    name = _value_column(frame, recipe)
    if not as_bytes:
        value = _value(frame, recipe)
    elif name is not None:
        value = _column_bytes(frame, name)
    else:
        value = F.to_json(_others(frame, recipe), AS_JSON).cast("binary")
    found.append(value.alias("value"))
    if recipe.headers_column is not None:
        found.append(_headers(frame, recipe.headers_column).alias("headers"))
    if recipe.timestamp_column is not None:
        found.append(_timestamp_ms(frame, recipe.timestamp_column).alias("timestamp_ms"))
    return found


def _order_columns(frame: DataFrame, recipe: Recipe) -> list[Column]:
    return [frame[name].alias(f"order_{index}") for index, name in enumerate(recipe.order_by)]


def _check(frame: DataFrame, shaped: DataFrame) -> None:
    for what in (frame, shaped):
        if not what._jdf.queryExecution().analyzed().deterministic():
            raise ReplayRefused("an expression that is not deterministic would give other records after a failure")


def _type_of(frame: DataFrame, name: str) -> T.DataType:
    return frame.select(frame[name].alias("it")).schema["it"].dataType


def _column_bytes(frame: DataFrame, name: str) -> Column:
    return _as_bytes(frame[name], _type_of(frame, name), f"column {name}")


def _as_bytes(column: Column, kind: T.DataType, what: str) -> Column:
    """The column as bytes: binary as it is, text as UTF-8, structs, arrays, maps and variants as JSON, others as text.

    In JSON, a field that is null is left out, as one that a record never had. A null stays null.
    """
    if isinstance(kind, T.BinaryType):
        return column
    if isinstance(kind, (T.StructType, T.ArrayType, T.MapType, T.VariantType)):
        return F.to_json(column, AS_JSON).cast("binary")
    return column.cast("string").cast("binary")


def _others(frame: DataFrame, recipe: Recipe) -> Column:
    used = {recipe.topic_column, recipe.key_column, recipe.headers_column, recipe.timestamp_column}
    lowered = {name.lower() for name in used if name is not None}
    others = [name for name in frame.columns if not lowered & {name.lower(), quoted(name).lower()}]
    if not others:
        raise ReplayRefused("no column is left for the value")
    return F.struct(*(frame[quoted(name)] for name in others))


def _headers(frame: DataFrame, name: str) -> Column:
    """The column as array<struct<key: string, value: binary>>, the shape that Spark's Kafka connector has."""
    kind = _type_of(frame, name)
    column = frame[name]
    if isinstance(kind, T.MapType):
        column = F.map_entries(column)
    elif not (isinstance(kind, T.ArrayType) and isinstance(kind.elementType, T.StructType)) or (
        kind.elementType.fieldNames() != ["key", "value"]
    ):
        raise ReplayRefused(f"column {name} is a {kind.simpleString()}: headers are a map or an array of (key, value)")
    return column.cast("array<struct<key:string,value:binary>>")


def _timestamp_ms(frame: DataFrame, name: str) -> Column:
    kind = _type_of(frame, name)
    if isinstance(kind, (T.LongType, T.IntegerType)):
        return frame[name].cast("long")
    if isinstance(kind, (T.TimestampType, T.TimestampNTZType, T.DateType)):
        return F.unix_millis(frame[name].cast("timestamp"))
    raise ReplayRefused(f"column {name} is a {kind.simpleString()}: a record's time is a timestamp or milliseconds")
