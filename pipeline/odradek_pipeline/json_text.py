"""Valid JSON: one value as in RFC 8259. Spark's own parser takes more than that unless it is told not to."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType

STRICT = dict.fromkeys(
    (
        "allowBackslashEscapingAnyCharacter",
        "allowComments",
        "allowNonNumericNumbers",
        "allowNumericLeadingZeros",
        "allowSingleQuotes",
        "allowUnquotedControlChars",
        "allowUnquotedFieldNames",
    ),
    "false",
)
"""Options of Spark's JSON parser. Two of them are on by default; which ones is up to Spark's version."""

CORRUPT = "_corrupt"
VALUES = "odradek values"
OPENED, CLOSED = f'{{"{VALUES}":[[', "],[null,null,null]]}"


def enclosed(value: Column) -> Column:
    """The text of a value as if it were all the elements of an array.

    So a second value, or anything else after the first, is noticed: a parser given the value itself stops at its end.
    """
    from pyspark.sql import functions as F

    return F.concat(F.lit(OPENED), value.cast("string"), F.lit(CLOSED))


def parsed(text: Column, kind: DataType) -> Column:
    """The arrays of an enclosed text, with elements of this type, beside what could not be parsed."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, StringType, StructField, StructType

    document = StructType([StructField(VALUES, ArrayType(ArrayType(kind))), StructField(CORRUPT, StringType())])
    return F.from_json(text, document, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT} | STRICT)


def is_parsed(value: Column) -> Column:
    """Whether all of an enclosed text was parsed.

    A value that itself closes the array and goes on (`{"n":1}]}`) does not end with the three nulls, or not after
    exactly one array.
    """
    from pyspark.sql import functions as F

    lists = value[VALUES]
    ends = (F.size(lists) == 2) & (F.size(F.get(lists, F.lit(1))) == 3)
    return value.isNotNull() & value[CORRUPT].isNull() & F.coalesce(ends, F.lit(False))


def elements(value: Column) -> Column:
    """The values in an enclosed text: as many as there are, and one in JSON."""
    from pyspark.sql import functions as F

    return F.get(value[VALUES], F.lit(0))


def count(value: Column) -> Column:
    """How many JSON values of any shape a text is: 1 if it is JSON, more if commas are between them; else null."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StringType

    found = parsed(enclosed(value), StringType())
    return F.when(is_parsed(found), F.size(elements(found)))


def listed(value: Column) -> Column:
    """The text with commas between objects and arrays that follow one another, which within JSON they never do."""
    from pyspark.sql import functions as F

    return F.regexp_replace(value.cast("string"), r"([}\]])\s*(?=[{\[])", "$1,")
