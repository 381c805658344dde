"""From the connector's rows to the tables' rows: good ones, and bad ones with the reason.

The columns are Kafka's own; what JSON contains is nested in `value`, so that a user's field never collides with them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from odradek_pipeline import json_text
from odradek_pipeline.lake import unknown
from odradek_pipeline.lake.schemas import decimals_as_text, required_paths

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

PARSED = "_parsed"
PROBLEM = "_problem"
UNKNOWN = "_unknown"
KEPT = "_kept"
VALUE, KEY = "_value", "_key"
SCHEMA_ID, KEY_SCHEMA_ID = "_schema_id", "_key_schema_id"
LONG_EXPONENT = r"[eE][+,-]*[\p{Nd},]{4}"
MAY_HAVE_LONG_EXPONENT = rf"{LONG_EXPONENT}|[eE][+,-]*[\p{{Nd}},]*\\u|\\u00[46]5"
"""For JSON, in which any character of a string may be written as a `\\u`."""

ESCAPES, STRINGS = r"(?s)\\.", r'''(?s)"[^"]*"'''

DAY_MS = 86_400_000
FIRST_DAY, LAST_DAY = -719_162, 2_932_896
"""0001-01-01 and 9999-12-31, in days since 1970."""


def raw_rows(batch: DataFrame, *more: Column) -> DataFrame:
    """topic, partition, offset, timestamp, timestamp_type, key, headers, value (binary), date (UTC, of timestamp)."""
    from pyspark.sql import functions as F

    return batch.select(*_common(), F.col("value"), _date(), *more)


def columns(value: StructType | None) -> StructType:
    """The columns of a table whose values are structs like this, or bytes."""
    from pyspark.sql import types as T

    header = T.StructType([T.StructField("key", T.StringType()), T.StructField("value", T.BinaryType())])
    kinds: dict[str, DataType] = {
        "topic": T.StringType(),
        "partition": T.IntegerType(),
        "offset": T.LongType(),
        "timestamp": T.TimestampType(),
        "timestamp_type": T.IntegerType(),
        "key": T.BinaryType(),
        "headers": T.ArrayType(header),
        "value": T.BinaryType() if value is None else value,
        "date": T.DateType(),
    }
    return T.StructType([T.StructField(name, kind) for name, kind in kinds.items()])


def raw_judged(batch: DataFrame) -> DataFrame:
    """As `json_judged`, of records whose values are good whatever they are."""
    from pyspark.sql import functions as F

    nothing = F.lit(None).cast("string")
    return batch.withColumns({KEY: F.col("key"), VALUE: F.col("value"), PROBLEM: nothing, UNKNOWN: strings(())})


def json_judged(batch: DataFrame, schema: StructType, keeps: bool = False) -> DataFrame:
    """The batch with `_value`, `_key`, `_problem`, which is null for good records, and `_unknown`.

    A null value, a tombstone, is good. `_unknown` are the names of the fields in a good record that the schema does not
    name; with `keeps`, `_kept` has what is in them. A column whose type is not known yet is not there.
    """
    from pyspark.sql import functions as F

    value, found = F.col("value"), F.col(PARSED)
    judged = batch.withColumn(PARSED, json_text.parsed(text_for(value, schema), schema))
    judged = judged.withColumns({KEY: F.col("key"), VALUE: first_of(found), PROBLEM: problem_of(value, found, schema)})
    named = unknown.names(value.cast("string"), schema)
    judged = judged.withColumn(UNKNOWN, F.when(F.col(PROBLEM).isNull(), named))
    return judged.withColumn(KEPT, kept(F.col(UNKNOWN), value, schema)) if keeps else judged


def kept(named: Column, value: Column, schema: DataType) -> Column:
    """What is in the unknown fields; most records have none, and are not parsed again."""
    from pyspark.sql import functions as F

    return F.when(F.size(named) > 0, unknown.contents(value.cast("string"), schema))


def text_for(value: Column, schema: StructType) -> Column:
    """A value's text for the parser; null for a text that the parser must not see."""
    from pyspark.sql import functions as F

    text = json_text.enclosed(value)
    decimals = decimals_as_text(schema)
    return text if decimals is None else F.when(~_has_long_exponent(text, decimals), text)


def counts(named: Sequence[str] | None = None) -> list[Column]:
    """Aggregates of a batch: `records`; of judged ones (`named` given) also `bad`, `unknown` and `unnamed` ones.

    Records with unknown fields are `unknown`, and `unnamed` if one is not among `named`. Those with a field that is
    among them are counted as `field N`, N being its place there.
    """
    from pyspark.sql import functions as F

    total = F.count(F.lit(1)).alias("records")
    if named is None:
        return [total]
    bad = F.count(F.col(PROBLEM)).alias("bad")
    strange = F.count_if(F.size(UNKNOWN) > 0).alias("unknown")
    each = [F.count_if(F.array_contains(UNKNOWN, name)).alias(f"field {place}") for place, name in enumerate(named)]
    return [total, bad, strange, F.count_if(F.size(unnamed(named)) > 0).alias("unnamed"), *each]


def field_counts(counted: Mapping[str, int], named: Sequence[str]) -> dict[str, int]:
    """By name, the records of a batch with each of these unknown fields, of what `counts` counted."""
    return {name: number for place, name in enumerate(named) if (number := counted[f"field {place}"])}


def unnamed(named: Collection[str]) -> Column:
    """The paths in `_unknown` that are not among those."""
    from pyspark.sql import functions as F

    return F.array_except(F.col(UNKNOWN), strings(named)) if named else F.col(UNKNOWN)


def unnamed_counts(judged: DataFrame, named: Collection[str], most: int) -> dict[str, int]:
    """The most frequent unknown fields that are not among `named`, and how many records have each."""
    from pyspark.sql import functions as F

    each = judged.select(F.explode(unnamed(named)).alias("field")).groupBy("field").count()
    rows = each.orderBy(F.desc("count"), "field").limit(most).collect()
    return {row["field"]: row["count"] for row in rows}


def good_rows(judged: DataFrame, *more: Column, kept_in: str = "") -> DataFrame:
    """The good records: as raw_rows, with key and value as they were read.

    The value is null for a tombstone and for JSON's null. Beside what a registry's schema says is the schema's id.
    `kept_in`: the name of the column with unknown fields.
    """
    from pyspark.sql import functions as F

    there = set(judged.columns)
    names = {KEY: "key", KEY_SCHEMA_ID: "key_schema_id", "headers": "headers", VALUE: "value", KEPT: kept_in}
    names |= {SCHEMA_ID: "schema_id"}
    read = [F.col(name).alias(told) for name, told in names.items() if name in there]
    return judged.where(F.col(PROBLEM).isNull()).select(*_place(), *read, _date(), *more)


def dead_letters(judged: DataFrame) -> DataFrame:
    """The bad records: as raw_rows, with `reason`."""
    from pyspark.sql import functions as F

    bad = judged.where(F.col(PROBLEM).isNotNull())
    return bad.select(*_common(), F.col("value"), F.col(PROBLEM).alias("reason"), _date())


def _has_long_exponent(text: Column, decimals: StructType) -> Column:
    """Whether a number, or the text of a decimal, has an exponent of four digits or more; also if damage hides it.

    No decimal can have one, but Spark's parser first writes out the digits: minutes and gigabytes for 1e99999999.
    `decimals` are the schema's decimals, as text, alone. A number does not even reach a text as it was written.
    """
    from pyspark.sql import functions as F

    outside_of_strings = F.regexp_replace(F.regexp_replace(text, ESCAPES, ""), STRINGS, "")
    parsed = json_text.parsed(text, decimals)
    texts = F.to_json(F.struct(parsed[json_text.VALUES]))
    found = (
        outside_of_strings.rlike(LONG_EXPONENT)
        | parsed[json_text.CORRUPT].isNotNull()
        | texts.rlike(rf'{LONG_EXPONENT}[^"]*"(?!:)')  # but no key of a map
    )
    return F.when(text.rlike(MAY_HAVE_LONG_EXPONENT), found).otherwise(False)


def problem_of(value: Column, found: Column, schema: StructType) -> Column:
    """Why a JSON value is none or does not fit; `found` is what the parser made of its text."""
    from pyspark.sql import functions as F

    size = F.size(json_text.elements(found))
    shape = (
        F.when(json_text.count(value) == 1, "JSON that does not fit the schema")
        .when(json_text.count(json_text.listed(value)) > 1, "more than one JSON value")
        .otherwise("not JSON")
    )
    problem = (
        F.when(value.isNull(), None)
        .when(~F.expr("is_valid_utf8(value)"), "not UTF-8")
        .when(~json_text.is_parsed(found), shape)
        .when(size != 1, F.when(size == 0, "empty").otherwise("more than one JSON value"))
    )
    for path in required_paths(schema):
        outer = field = first_of(found)
        for name in path:
            outer, field = field, field.getField(name)
        problem = problem.when(outer.isNotNull() & field.isNull(), f"required field {'.'.join(path)} is missing")
    return problem


def first_of(found: Column) -> Column:
    """The first element of the first array: the value."""
    from pyspark.sql import functions as F

    return F.get(json_text.elements(found), F.lit(0))


def strings(values: Collection[str]) -> Column:
    """A constant array."""
    from pyspark.sql import functions as F

    return F.array(*map(F.lit, values)).cast("array<string>")


def _common() -> list[Column]:
    from pyspark.sql import functions as F

    return [*_place(), F.col("key"), F.col("headers")]


def _place() -> list[Column]:
    from pyspark.sql import functions as F

    names = ["topic", "partition", "offset", "timestamp"]
    return [*map(F.col, names), F.col("timestampType").alias("timestamp_type")]


def _date() -> Column:
    """The day in UTC, whatever the session's time zone; null outside of the years that all table readers support."""
    from pyspark.sql import functions as F

    day = F.floor(F.unix_millis("timestamp") / DAY_MS).cast("int")
    return F.when(day.between(FIRST_DAY, LAST_DAY), F.date_from_unix_date(day)).alias("date")
