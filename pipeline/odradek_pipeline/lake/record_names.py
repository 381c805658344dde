"""What a record says of its schema: the id in front of a key or value, or the GUID in a header (`schemas.framing`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek_pipeline.schemas.framing import KEY_HEADER, VALUE_HEADER
from odradek_pipeline.schemas.lookup import AVRO, PROTOBUF

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

HEADERS = {"value": VALUE_HEADER, "key": KEY_HEADER}


def named(side: str, kind: str) -> tuple[Column, Column]:
    """The name that a record's header or first bytes have for its schema, null without one, and what follows it.

    A number as text, or the 32 digits of a GUID. The header is looked at first, as clients do. Protobuf's payload has
    the indexes of its message in front; with a header, they are there.
    """
    from pyspark.sql import functions as F

    content = F.col(side)
    header = F.try_element_at(F.filter("headers", lambda each: each["key"] == HEADERS[side]), F.lit(-1))["value"]

    def begins(text: Column, byte: bytes, least: int) -> Column:
        found = (F.length(text) >= least) & (F.substring(text, 1, 1) == F.lit(byte))
        return F.coalesce(found, F.lit(False))

    def number(text: Column) -> Column:
        return F.conv(F.hex(F.substring(text, 2, 4)), 16, 10)

    by_guid, by_id = begins(header, b"\1", 17), begins(header, b"\0", 5)
    name = (
        F.when(content.isNull(), F.lit(None).cast("string"))
        .when(by_guid, F.lower(F.hex(F.substring(header, 2, 16))))
        .when(by_id, number(header))
        .when(begins(content, b"\0", 5), number(content))
    )
    payload = F.when(by_guid | by_id, content).otherwise(F.expr(f"substring({side}, 6)"))
    if kind == PROTOBUF:
        payload = (
            F.when(by_guid, F.concat(_behind(header, 18), content))
            .when(by_id, F.concat(_behind(header, 6), content))
            .otherwise(payload)
        )
    return name, payload


def _behind(text: Column, first: int) -> Column:
    """The bytes from a position on, counted from 1."""
    from pyspark.sql import functions as F

    return F.substring(text, F.lit(first), F.length(text))


def distinct(batch: DataFrame, side: str) -> list[str]:
    """The names of schemas in a batch, in an order that is the same in every attempt: older ids first."""
    rows = batch.select(named(side, AVRO)[0].alias("name")).distinct().collect()
    return sorted((row["name"] for row in rows if row["name"] is not None), key=lambda name: (len(name), name))
