"""`replay --value-format`: schemas made of a table's columns, and rows that are encoded with them."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="requirements-pipeline.txt is not installed")

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as T

from odradek_pipeline.lake.decoders import decoder_of
from odradek_pipeline.registry import RegisteredSchema, Registry
from odradek_pipeline.replay.encoding import Encoding, ValueFormat, encoding_of, plain_of
from odradek_pipeline.replay.progress import ReplayRefused
from odradek_pipeline.replay.table_schemas import text_of
from odradek_pipeline.schemas.client import RegistryAway
from odradek_pipeline.schemas.framing import Framed
from odradek_pipeline.schemas.lookup import AVRO, JSON, PROTOBUF

LINE = T.StructType([T.StructField("sku", T.StringType()), T.StructField("pieces", T.IntegerType())])
VALUE = T.StructType(
    [
        T.StructField("id", T.LongType()),
        T.StructField("good", T.BooleanType()),
        T.StructField("ratio", T.DoubleType()),
        T.StructField("price", T.DecimalType(9, 2)),
        T.StructField("raw", T.BinaryType()),
        T.StructField("day", T.DateType()),
        T.StructField("at", T.TimestampType()),
        T.StructField("line", LINE),
        T.StructField("lines", T.ArrayType(LINE)),
        T.StructField("by", T.MapType(T.StringType(), LINE)),
    ]
)
ARROW = pa.struct(
    [
        ("id", pa.int64()),
        ("good", pa.bool_()),
        ("ratio", pa.float64()),
        ("price", pa.decimal128(9, 2)),
        ("raw", pa.binary()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("line", pa.struct([("sku", pa.string()), ("pieces", pa.int32())])),
        ("lines", pa.list_(pa.struct([("sku", pa.string()), ("pieces", pa.int32())]))),
        ("by", pa.map_(pa.string(), pa.struct([("sku", pa.string()), ("pieces", pa.int32())]))),
    ]
)
TEXT = st.text(st.characters(codec="utf-8"), max_size=5)
LINES = st.fixed_dictionaries({"sku": TEXT, "pieces": st.integers(-(2**31), 2**31 - 1)})
ROWS = st.fixed_dictionaries(
    {
        "id": st.integers(-(2**63), 2**63 - 1),
        "good": st.booleans(),
        "ratio": st.floats(allow_nan=False, allow_infinity=False),
        "price": st.decimals(-9_999_999, 9_999_999, places=2),
        "raw": st.binary(max_size=4),
        "day": st.dates(),
        "at": st.datetimes(timezones=st.just(datetime.UTC)),
        "line": LINES,
        "lines": st.lists(LINES, max_size=2),
        "by": st.dictionaries(TEXT, LINES, max_size=2),
    }
)


def encode(kind: str, row: dict[str, Any]) -> tuple[Encoding, bytes]:
    """The row as it comes from Arrow, encoded with the schema made of its columns."""
    encoding = encoding_of(RegisteredSchema(kind, text_of(kind, VALUE), 7))
    (value,) = pa.array([{**row, "by": list(row["by"].items())}], ARROW).to_pylist()
    return encoding, encoding.codec().encode(plain_of(VALUE, kind)(value))


@given(ROWS)
def test_rows_come_back_from_avro_as_they_were(row: dict[str, Any]) -> None:
    encoding, payload = encode(AVRO, row)
    assert encoding.codec().decode(Framed(7, payload)) == row


@given(ROWS)
def test_rows_come_back_from_json_with_texts_for_what_it_lacks(row: dict[str, Any]) -> None:
    encoding, payload = encode(JSON, row)
    found = encoding.codec().decode(Framed(7, payload))
    assert Decimal(str(found["price"])) == row["price"]
    assert datetime.datetime.fromisoformat(found["at"]) == row["at"]
    assert datetime.date.fromisoformat(found["day"]) == row["day"]
    same = ("id", "good", "ratio", "line", "lines", "by")
    assert {name: found[name] for name in same} == {name: row[name] for name in same}


@given(ROWS)
def test_rows_come_back_from_protobuf_with_texts_for_what_it_lacks(row: dict[str, Any]) -> None:
    encoding, payload = encode(PROTOBUF, row)
    found = encoding.codec().decode(Framed(7, payload))
    assert Decimal(found["price"]) == row["price"]
    assert datetime.datetime.fromisoformat(found["at"]) == row["at"]
    same = ("id", "good", "ratio", "line", "lines", "by")
    assert {name: found[name] for name in same} == {name: row[name] for name in same}


@pytest.mark.parametrize("kind", [AVRO, PROTOBUF])
def test_the_lake_has_the_same_columns_of_a_schema_made_of_its_columns(kind: str) -> None:
    column = decoder_of(RegisteredSchema(kind, text_of(kind, VALUE), 7)).column
    texts = {"price": T.StringType(), "day": T.StringType()} if kind == PROTOBUF else {}
    assert column == T.StructType([T.StructField(part.name, texts.get(part.name, part.dataType)) for part in VALUE])


@pytest.mark.parametrize(
    ("kind", "column", "why"),
    [
        (
            AVRO,
            T.StructType([T.StructField("a b", T.LongType())]),
            "Value has a field 'a b', and Avro has no such names",
        ),
        (PROTOBUF, T.LongType(), "the value is a bigint, and Protobuf has messages"),
        (PROTOBUF, T.StructType([T.StructField("x", T.ArrayType(T.ArrayType(T.LongType())))]), "x is a array<bigint>"),
        (JSON, T.StructType([T.StructField("x", T.VariantType())]), "x is a variant, which JSON does not have"),
        (AVRO, T.MapType(T.LongType(), T.LongType()), "Value is a map<bigint,bigint>"),
    ],
)
def test_columns_that_a_language_does_not_have_are_told(kind: str, column: T.DataType, why: str) -> None:
    with pytest.raises(ReplayRefused) as refused:
        text_of(kind, column)
    assert why in refused.value.message


def test_digits_that_json_does_not_keep_are_no_number() -> None:
    number = plain_of(T.DecimalType(38, 20), JSON)
    assert (number(Decimal("0.5")), number(Decimal("2.000"))) == (0.5, 2)
    with pytest.raises(ValueError, match="more digits than a number in JSON keeps"):
        number(Decimal("0.12345678901234567891"))


class Known(Registry):
    """A registry that has one schema, or does not answer."""

    def __init__(self, schema: RegisteredSchema | None = None, away: bool = False) -> None:
        super().__init__("http://127.0.0.1:1")
        self._schema, self._away = schema, away
        self.asked: list[Any] = []

    def by_id(self, schema_id: int, subject: str) -> RegisteredSchema | None:
        self.asked.append(schema_id)
        return self.latest(subject)

    def latest(self, subject: str) -> RegisteredSchema | None:
        if self._away:
            raise RegistryAway("nobody answers")
        return self._schema

    def register(self, subject: str, schema: RegisteredSchema) -> int:
        self.asked.append((subject, schema.text))
        return 9


def test_a_job_that_has_begun_keeps_its_schema() -> None:
    registry = Known(RegisteredSchema(AVRO, '"long"', 7))
    wanted = ValueFormat(registry, AVRO, "t-value", register=True)
    assert wanted.chosen(T.LongType(), {}).id == 9
    assert registry.asked == [("t-value", '"long"')]
    begun = encoding_of(wanted.chosen(T.LongType(), {"value schema": 7})).manifest()
    assert (begun, registry.asked[1:]) == ({"value schema": 7}, [7])


@pytest.mark.parametrize(
    ("registry", "begun", "why"),
    [
        (Known(), {}, "the registry has no subject s; --register makes a schema of the columns"),
        (Known(), {"value schema": 5}, "the registry has no schema 5"),
        (Known(RegisteredSchema(JSON, "{}", 7)), {}, "the schema of s is of type JSON, not AVRO"),
        (Known(away=True), {}, "nobody answers"),
    ],
)
def test_a_schema_that_is_not_there_refuses_the_job(registry: Known, begun: dict[str, Any], why: str) -> None:
    with pytest.raises(ReplayRefused) as refused:
        ValueFormat(registry, AVRO, "s").chosen(T.LongType(), begun)
    assert why in refused.value.message


def test_a_schema_that_is_none_refuses_the_job() -> None:
    with pytest.raises(ReplayRefused, match="schema 7: no Avro schema"):
        encoding_of(RegisteredSchema(AVRO, '{"type": "nothing"}', 7))
