"""Which columns a JSON Schema becomes."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("pyspark", reason="requirements-pipeline.txt is not installed")

from odradek_pipeline.lake.json_schema import struct_of
from odradek_pipeline.lake.schemas import required_paths


def test_json_schema_becomes_columns() -> None:
    document = {
        "type": "object",
        "required": ["id", "maybe"],
        "properties": {
            "id": {"type": "integer"},
            "maybe": {"type": ["number", "null"]},
            "at": {"type": "string", "format": "date-time"},
            "day": {"type": "string", "format": "date"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "counts": {"type": "object", "additionalProperties": {"type": "boolean"}},
            "inner": {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]},
            "any": {},
        },
    }
    assert struct_of(document).simpleString() == (
        "struct<id:bigint,maybe:double,at:timestamp,day:date,tags:array<string>,counts:map<string,boolean>,"
        "inner:struct<x:string>,any:string>"
    )
    assert list(required_paths(struct_of(document))) == [("id",), ("inner", "x")]


@pytest.mark.parametrize(
    "document",
    [
        {"type": "array", "items": {"type": "string"}},
        {"type": "object"},
        {"type": "object", "properties": {"x": {"$ref": "#/elsewhere"}}},
        {"type": "object", "properties": {"x": {"$ref": "other.json"}}},
        {"oneOf": [{"type": "object", "properties": {"x": {}}}, {"type": "string"}]},
    ],
)
def test_json_schema_without_one_type_is_refused(document: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"object schema|references"):
        struct_of(document)


def test_json_schema_references_and_alternatives_become_columns_or_text() -> None:
    document = {
        "definitions": {
            "Address": {"type": "object", "properties": {"zip": {"type": "string"}}, "required": ["zip"]},
            "Tree": {
                "type": "object",
                "properties": {"n": {"type": "integer"}, "next": {"$ref": "#/definitions/Tree"}},
            },
        },
        "properties": {
            "home": {"$ref": "#/definitions/Address"},
            "work": {"oneOf": [{"type": "null"}, {"$ref": "#/definitions/Address"}]},
            "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
            "tree": {"$ref": "#/definitions/Tree"},
            "all": {"allOf": [{"$ref": "#/definitions/Address"}, {"properties": {"more": {"type": "number"}}}]},
            "other": {"$ref": "other.json#/$defs/a~1b"},
        },
        "required": ["home", "work"],
    }
    needed = {"other.json": json.dumps({"$defs": {"a/b": {"type": "boolean"}}})}
    found = struct_of(document, needed)
    assert found.simpleString() == (
        "struct<home:struct<zip:string>,work:struct<zip:string>,either:string,tree:struct<n:bigint,next:string>,"
        "all:struct<zip:string,more:double>,other:boolean>"
    )
    assert list(required_paths(found)) == [("home",), ("home", "zip"), ("work", "zip"), ("all", "zip")]
