"""From the connector's rows to the tables' rows: good ones, and bad ones with the reason.

The columns are Kafka's own; what JSON contains is nested in `value`, so that a user's field never collides with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek_pipeline.lake.schemas import decimals_as_text, required_paths

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

PARSED = "_parsed"
PROBLEM = "_problem"
CORRUPT = "_corrupt"
VALUES = "odradek values"
OPENED, CLOSED = f'{{"{VALUES}":[[', "],[null,null,null]]}"
LONG_EXPONENT = r"[eE][+,-]*[\p{Nd},]{4}"
MAY_HAVE_LONG_EXPONENT = rf"{LONG_EXPONENT}|[eE][+,-]*[\p{{Nd}},]*\\u|\\u00[46]5"
"""For JSON, in which any character of a string may be written as a `\\u`."""

ESCAPES, STRINGS = r"(?s)\\.", r"""(?s)"[^"]*"|'[^']*'"""

DAY_MS = 86_400_000
FIRST_DAY, LAST_DAY = -719_162, 2_932_896
"""0001-01-01 and 9999-12-31, in days since 1970."""


def raw_rows(batch: DataFrame) -> DataFrame:
    """topic, partition, offset, timestamp, timestamp_type, key, headers, value (binary), date (UTC, of timestamp)."""
    from pyspark.sql import functions as F

    return batch.select(*_common(), F.col("value"), _date())


def json_judged(batch: DataFrame, schema: StructType) -> DataFrame:
    """The batch with `_parsed` and `_problem`, which is null for good records. A null value, a tombstone, is good.

    Each value is parsed as if it were all the elements of an array, so that a second value, or anything else after the
    first, is noticed: a parser given the value itself stops at its end. A value that itself closes that array and goes
    on (`{"n":1}]}`) does not end with the three nulls, or not after exactly one array.
    """
    from pyspark.sql import functions as F

    text = F.concat(F.lit(OPENED), F.col("value").cast("string"), F.lit(CLOSED))
    decimals = decimals_as_text(schema)
    if decimals is not None:
        text = F.when(~_has_long_exponent(text, decimals), text)
    return batch.withColumn(PARSED, _parsed(text, schema)).withColumn(PROBLEM, _problem(schema))


def json_rows(judged: DataFrame) -> DataFrame:
    """The good records: as raw_rows, except that `value` is a struct; null for a tombstone and for JSON's null."""
    from pyspark.sql import functions as F

    return judged.where(F.col(PROBLEM).isNull()).select(*_common(), _first().alias("value"), _date())


def dead_letters(judged: DataFrame) -> DataFrame:
    """The bad records: as raw_rows, with `reason`."""
    from pyspark.sql import functions as F

    bad = judged.where(F.col(PROBLEM).isNotNull())
    return bad.select(*_common(), F.col("value"), F.col(PROBLEM).alias("reason"), _date())


def _parsed(text: Column, schema: StructType) -> Column:
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, StringType, StructField, StructType

    document = StructType([StructField(VALUES, ArrayType(ArrayType(schema))), StructField(CORRUPT, StringType())])
    return F.from_json(text, document, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT})


def _has_long_exponent(text: Column, decimals: StructType) -> Column:
    """Whether a number, or the text of a decimal, has an exponent of four digits or more; also if damage hides it.

    No decimal can have one, but Spark's parser first writes out the digits: minutes and gigabytes for 1e99999999.
    `decimals` are the schema's decimals, as text, alone. A number does not even reach a text as it was written.
    """
    from pyspark.sql import functions as F

    outside_of_strings = F.regexp_replace(F.regexp_replace(text, ESCAPES, ""), STRINGS, "")
    parsed = _parsed(text, decimals)
    texts = F.to_json(F.struct(parsed[VALUES]))
    found = (
        outside_of_strings.rlike(LONG_EXPONENT)
        | parsed[CORRUPT].isNotNull()
        | texts.rlike(rf'{LONG_EXPONENT}[^"]*"(?!:)')  # but no key of a map
    )
    return F.when(text.rlike(MAY_HAVE_LONG_EXPONENT), found).otherwise(False)


def _problem(schema: StructType) -> Column:
    from pyspark.sql import functions as F

    lists = F.col(PARSED)[VALUES]
    elements, end = F.get(lists, F.lit(0)), F.get(lists, F.lit(1))
    shape = F.when(F.expr("try_parse_json(cast(value as string)) is null"), "not JSON").otherwise(
        "JSON that does not fit the schema"
    )
    problem = (
        F.when(F.col("value").isNull(), None)
        .when(~F.expr("is_valid_utf8(value)"), "not UTF-8")
        .when(F.col(PARSED).isNull() | F.col(PARSED)[CORRUPT].isNotNull(), shape)
        .when(~F.coalesce((F.size(lists) == 2) & (F.size(end) == 3), F.lit(False)), "not JSON")
        .when(F.size(elements) != 1, F.when(F.size(elements) == 0, "empty").otherwise("more than one JSON value"))
    )
    for path in required_paths(schema):
        outer, field = _first(), _first()
        for name in path:
            outer, field = field, field.getField(name)
        problem = problem.when(outer.isNotNull() & field.isNull(), f"required field {'.'.join(path)} is missing")
    return problem


def _first() -> Column:
    """The first element of the first array: the value."""
    from pyspark.sql import functions as F

    return F.get(F.get(F.col(PARSED)[VALUES], F.lit(0)), F.lit(0))


def _common() -> list[Column]:
    from pyspark.sql import functions as F

    names = ["topic", "partition", "offset", "timestamp"]
    return [*map(F.col, names), F.col("timestampType").alias("timestamp_type"), F.col("key"), F.col("headers")]


def _date() -> Column:
    """The day in UTC, whatever the session's time zone; null outside of the years that all table readers support."""
    from pyspark.sql import functions as F

    day = F.floor(F.unix_millis("timestamp") / DAY_MS).cast("int")
    return F.when(day.between(FIRST_DAY, LAST_DAY), F.date_from_unix_date(day)).alias("date")
