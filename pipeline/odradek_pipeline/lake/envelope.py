"""Envelopes: values that tell of a change of a row, and have the row within them.

Debezium's has `op`, `before` and `after`, at the top or, as Connect's JSON converter writes it with its schemas, within
`payload`. The schema of a topic's JSON is then that of the row; a registry's schema is that of the envelope.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from odradek_pipeline.lake.naming import LakeError
from odradek_pipeline.lake.schemas import EVERY_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructType

DEBEZIUM = "debezium"
PAYLOAD, AFTER, OP = "payload", "after", "op"
DELETE = "d"
CHANGES = ("c", "u", "r")
"""Create, update, and read by a snapshot."""
ANYTHING = ("before", "source", "transaction", "ts_ms", "ts_us", "ts_ns")
"""Debezium's other fields: of any shape, as text."""


def parse(texts: Iterable[str]) -> dict[str, str]:
    """Topic to envelope. Raises LakeError for any other form."""
    found: dict[str, str] = {}
    for text in texts:
        topic, separator, kind = text.partition("=")
        if not separator or kind != DEBEZIUM:
            raise LakeError(f"--envelope {text!r}: not TOPIC={DEBEZIUM}")
        if topic in found:
            raise LakeError(f"--envelope {text!r}: topic {topic} has one already")
        found[topic] = kind
    return found


def has_one(envelopes: Mapping[str, str], topic: str) -> bool:
    return topic in envelopes or EVERY_TOPIC in envelopes


def around(row: StructType) -> StructType:
    """The schema of the values, given the row's."""
    from pyspark.sql.types import StringType, StructField, StructType

    others = [StructField(name, StringType()) for name in ANYTHING]
    fields = [StructField(AFTER, row), StructField(OP, StringType()), *others]
    return StructType([*fields, StructField(PAYLOAD, StructType(fields)), StructField("schema", StringType())])


def within(values: StructType) -> StructType | None:
    """The row's schema, given one inferred from values; None if they had no row."""
    from pyspark.sql.types import StructType

    for path in ((PAYLOAD, AFTER), (AFTER,)):
        kind: DataType | None = values
        for name in path:
            kind = kind[name].dataType if isinstance(kind, StructType) and name in kind.names else None
        if isinstance(kind, StructType):
            return kind
    return None


def has_row(kind: DataType) -> bool:
    """Whether values of a type have a row within them."""
    return bool(_places(kind, AFTER))


def row(value: Column, kind: DataType) -> Column:
    """The row after the change; null where there is none."""
    return _either(value, kind, AFTER)


def operation(value: Column, kind: DataType) -> Column:
    return _either(value, kind, OP)


def problem(value: Column, kind: DataType) -> Column:
    """Why a value that was read is no change of a row; null if it is one."""
    from pyspark.sql import functions as F

    done = operation(value, kind)
    return (
        F.when(value.isNull(), None)
        .when(done.isNull(), "no Debezium envelope: it has no op")
        .when(done.isin(*CHANGES) & row(value, kind).isNull(), "a Debezium envelope without after")
        .when(~done.isin(*CHANGES, DELETE), "a Debezium envelope whose op changes no row")
    )


def _either(value: Column, kind: DataType, name: str) -> Column:
    from pyspark.sql import functions as F

    found = []
    for path in _places(kind, name):
        field = value
        for part in path:
            field = field[part]
        found.append(field)
    return F.coalesce(*found) if found else F.lit(None).cast("string")


def _places(kind: DataType, name: str) -> list[tuple[str, ...]]:
    """Where values of a type have a field of an envelope."""
    from pyspark.sql.types import StructType

    if not isinstance(kind, StructType):
        return []
    within = _places(kind[PAYLOAD].dataType, name) if PAYLOAD in kind.names else []
    return [(PAYLOAD, *path) for path in within] + ([(name,)] if name in kind.names else [])
