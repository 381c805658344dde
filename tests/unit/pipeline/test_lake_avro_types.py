"""Which column an Avro schema becomes, and what of it Spark's `from_avro` is given."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="requirements-pipeline.txt is not installed")

import avro.schema

from odradek_pipeline.lake.avro_types import column_of
from odradek_pipeline.lake.widening import NoColumn, column_type

NODE = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
COLOURS = {"type": "enum", "name": "Colour", "symbols": ["RED"]}


def record(*kinds: Any) -> dict[str, Any]:
    fields = [{"name": f"f{number}", "type": kind} for number, kind in enumerate(kinds)]
    return {"type": "record", "name": "R", "namespace": "n.s", "fields": fields}


def logical(kind: str, means: str, /, **more: object) -> dict[str, object]:
    return {"type": kind, "logicalType": means, **more}


@pytest.mark.parametrize(
    ("schema", "column"),
    [
        ("string", "string"),
        ("int", "int"),
        ("long", "bigint"),
        ("float", "float"),
        ("double", "double"),
        ("boolean", "boolean"),
        ("bytes", "binary"),
        (COLOURS, "string"),
        ({"type": "fixed", "name": "F", "size": 3}, "binary"),
        (logical("string", "uuid"), "string"),
        (logical("int", "date"), "date"),
        (logical("int", "time-millis"), "bigint"),
        (logical("long", "time-micros"), "bigint"),
        (logical("long", "timestamp-millis"), "timestamp"),
        (logical("long", "timestamp-micros"), "timestamp"),
        (logical("long", "timestamp-nanos"), "bigint"),
        (logical("long", "local-timestamp-millis"), "timestamp_ntz"),
        (logical("long", "local-timestamp-micros"), "timestamp_ntz"),
        (logical("bytes", "decimal", precision=9, scale=2), "decimal(9,2)"),
        (logical("fixed", "decimal", name="D", size=8, precision=9), "decimal(9,0)"),
        (logical("bytes", "decimal", precision=2, scale=3), "binary"),
        (["null", "string"], "string"),
        (["int", "null"], "int"),
        (["string"], "string"),
        (["int", "long"], "bigint"),
        (["null", "float", "double"], "double"),
        (["null", "int", "string"], "struct<member0:int,member1:string>"),
        ({"type": "array", "items": ["null", "long"]}, "array<bigint>"),
        ({"type": "map", "values": {"type": "array", "items": "int"}}, "map<string,array<int>>"),
        (record("null", COLOURS, "n.s.Colour", "Colour"), "struct<f1:string,f2:string,f3:string>"),
        (
            record({"type": "record", "name": "In", "fields": [{"name": "x", "type": "int"}]}),
            "struct<f0:struct<x:int>>",
        ),
        ({"type": {"type": "array", "items": "int"}}, "array<int>"),
    ],
    ids=str,
)
def test_avro_types_become_column_types(schema: Any, column: str) -> None:
    found = column_of(json.dumps(schema))
    assert column_type(found.read).simpleString() == column
    avro.schema.parse(found.text)


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (NODE, "value.next: Node contains itself"),
        (["null"], "nothing but null"),
        ("null", "can only be null"),
        ({"type": "array", "items": "null"}, "value can only be null"),
        (record(), "value has no field"),
        (record({**record(), "name": "Empty"}), "value.f0 has no field"),
        (logical("bytes", "decimal", precision=39), "38 digits at most"),
    ],
    ids=str,
)
def test_avro_schemas_without_a_column_are_refused(schema: Any, why: str) -> None:
    with pytest.raises(NoColumn, match=why):
        column_type(column_of(json.dumps(schema)).read)


def test_avro_references_are_put_in_where_they_are_first_named() -> None:
    inner = json.dumps({"type": "record", "name": "n.s.Inner", "fields": [{"name": "c", "type": "Colour"}]})
    needed = {"n.s.Colour": json.dumps({**COLOURS, "namespace": "n.s"}), "n.s.Inner": inner}
    found = column_of(json.dumps(record("Inner", "n.s.Inner", "Colour")), needed)
    assert column_type(found.read).simpleString() == "struct<f0:struct<c:string>,f1:struct<c:string>,f2:string>"
    assert found.text.count('"symbols"') == 1
    avro.schema.parse(found.text)
    with pytest.raises(ValueError, match="there is no type Inner"):
        column_of(json.dumps(record("Inner")))


def test_avro_names_as_clients_register_them() -> None:
    assert column_of("string").text == column_of('"string"').text == '"string"'
