"""How a topic's table is divided: `--partition-by 'TOPIC=hour(timestamp),bucket(16, key)'`.

Iceberg has transforms for it. Delta and Parquet have partitions by columns alone, so their tables get a column for each
field; in Delta a generated one, by which a filter on the time itself finds the partitions.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from odradek_pipeline.files import quoted
from odradek_pipeline.lake.naming import LakeError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

DATE = "date"
HOUR, DAY, BUCKET, FIELD = "hour", "day", "bucket", "field"
COLUMN = r"\w+(?:\.\w+)*"
FORMS = (
    (HOUR, re.compile(rf"hour\(\s*(?P<path>{COLUMN})\s*\)")),
    (DAY, re.compile(rf"day\(\s*(?P<path>{COLUMN})\s*\)")),
    (BUCKET, re.compile(rf"bucket\(\s*(?P<number>[1-9]\d{{0,5}})\s*,\s*(?P<path>{COLUMN})\s*\)")),
    (FIELD, re.compile(rf"(?P<path>{COLUMN})")),
)
BETWEEN = re.compile(r",(?![^(]*\))")
"""Commas that are not within parentheses."""


@dataclass(frozen=True, slots=True)
class PartitionField:
    """`path`: a column, or a field within one (`value.country`). `number`: of buckets."""

    kind: str
    path: str
    number: int = 0

    def __str__(self) -> str:
        if self.kind == BUCKET:
            return f"bucket({self.number}, {self.path})"
        return self.path if self.kind == FIELD else f"{self.kind}({self.path})"

    @property
    def column(self) -> str:
        """The column of a Delta or Parquet table; one of the table's own if that is what it is divided by."""
        if self.kind == FIELD:
            return self.path.replace(".", "_")
        return f"{self.path.replace('.', '_')}_{self.kind}"

    @property
    def is_own_column(self) -> bool:
        return self.kind != FIELD or "." in self.path

    @property
    def sql(self) -> str:
        """The expression of its column."""
        path = ".".join(map(quoted, self.path.split(".")))
        match self.kind:
            case "hour":
                return f"DATE_TRUNC('HOUR', {path})"
            case "day":
                return f"CAST({path} AS DATE)"
            case "bucket":
                return f"CAST(CRC32({path}) % {self.number} AS INT)"
        return path

    def transform(self) -> Column:
        """The same for a table of Iceberg's."""
        from pyspark.sql import functions as F

        match self.kind:
            case "hour":
                return F.partitioning.hours(self.path)
            case "day":
                return F.partitioning.days(self.path)
            case "bucket":
                return F.partitioning.bucket(self.number, self.path)
        return F.col(self.path)

    def term(self, expressions: Any) -> Any:
        """The same in Iceberg's own API, for a table that exists."""
        match self.kind:
            case "hour":
                return expressions.hour(self.path)
            case "day":
                return expressions.day(self.path)
            case "bucket":
                return expressions.bucket(self.path, self.number)
        return expressions.ref(self.path)


Partitioning = Sequence[PartitionField]
BY_DATE: Partitioning = (PartitionField(FIELD, DATE),)
UNDIVIDED: Partitioning = ()


def text_of(partitioning: Partitioning) -> str:
    return ", ".join(map(str, partitioning))


def parse(texts: Iterable[str]) -> dict[str, Partitioning]:
    """Topic to partitioning; `none` is the one without a field. Raises LakeError for any other form."""
    found: dict[str, Partitioning] = {}
    for text in texts:
        topic, separator, rest = text.partition("=")
        if not separator or not rest.strip():
            raise LakeError(f"--partition-by {text!r}: not TOPIC=FIELD, such as 'orders=hour(timestamp)'")
        if topic in found:
            raise LakeError(f"--partition-by {text!r}: topic {topic} has one already")
        found[topic] = from_text("" if rest.strip() == "none" else rest)
    return found


def from_text(text: str) -> Partitioning:
    """What `text_of` was given. Raises LakeError for what has no such form."""
    fields = [_field(part.strip()) for part in BETWEEN.split(text)] if text else []
    columns = [field.column for field in fields]
    if len(set(columns)) < len(columns):
        raise LakeError(f"--partition-by {text!r}: the same field twice")
    return tuple(fields)


def _field(text: str) -> PartitionField:
    for kind, form in FORMS:
        if (found := form.fullmatch(text)) is not None:
            named = found.groupdict()
            return PartitionField(kind, named["path"], int(named.get("number") or 0))
    raise LakeError(
        f"--partition-by: {text!r} is none of hour(FIELD), day(FIELD), bucket(NUMBER, FIELD) and FIELD, "
        "where FIELD is a column, or a field in one such as value.country"
    )


def check(
    topic: str, partitioning: Partitioning, columns: StructType, transforms: bool, later: Collection[str] = ()
) -> None:
    """Raises LakeError if a table with these columns cannot be divided so.

    `transforms`: it is one of Iceberg's. `later`: columns whose types only a registry's schemas will tell, so what
    is in them is not looked at yet.
    """
    from pyspark.sql import types as T

    times = (T.TimestampType, T.TimestampNTZType, T.DateType)
    allowed: dict[str, tuple[type[DataType], ...]] = {
        HOUR: (T.TimestampType, T.TimestampNTZType),
        DAY: times,
        BUCKET: (T.BinaryType, T.StringType),
        FIELD: (T.StringType, T.IntegralType, T.BooleanType, T.DateType, T.DecimalType),
    }
    if transforms:  # elsewhere a bucket is a checksum, which is of bytes
        allowed[BUCKET] += (T.IntegralType, T.DecimalType, *times)
    for field in partitioning:
        if field.path.partition(".")[0] in later:
            continue
        kind = _type_at(columns, field.path)
        if kind is None:
            raise LakeError(f"topic {topic}: --partition-by {field}: the table has no field {field.path}")
        if not isinstance(kind, allowed[field.kind]):
            hint = (
                f"; a field in it may, such as {field.path}.{kind.names[0]}" if isinstance(kind, T.StructType) else ""
            )
            what = f"a field of type {kind.simpleString()} cannot divide a table so{hint}"
            raise LakeError(f"topic {topic}: --partition-by {field}: {what}")
        if field.is_own_column and field.column in columns.names:
            raise LakeError(f"topic {topic}: --partition-by {field}: the table has a column {field.column} already")


def _type_at(columns: StructType, path: str) -> DataType | None:
    from pyspark.sql.types import StructType

    kind: DataType = columns
    for name in path.split("."):
        if not isinstance(kind, StructType) or name not in kind.names:
            return None
        kind = kind[name].dataType
    return kind


def with_columns(rows: DataFrame, partitioning: Partitioning) -> DataFrame:
    """The rows with the columns that divide a Delta or Parquet table."""
    from pyspark.sql import functions as F

    return rows.withColumns({field.column: F.expr(field.sql) for field in partitioning if field.is_own_column})
