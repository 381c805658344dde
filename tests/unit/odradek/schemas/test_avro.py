"""Avro's codec: which schemas are refused, as they could do harm, what others write, and values in JSON's form."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest

from odradek.schemas.avro import MOST_VALUES, AvroCodec
from odradek.schemas.codecs import LONGEST_VALUE
from odradek.schemas.errors import SchemaError
from odradek.schemas.framing import Framed
from odradek.schemas.lookup import Source

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "who", "type": "string"}],
}
ENDLESS = {"type": "array", "items": {"type": "record", "name": "Nothing", "fields": [{"name": "n", "type": "null"}]}}


def written(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, value)
    return out.getvalue()


def codec(schema: Any, **needed: Any) -> AvroCodec:
    return AvroCodec(Source("AVRO", json.dumps(schema), {name: json.dumps(each) for name, each in needed.items()}))


NODE = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
ITSELF = {"type": "record", "name": "Itself", "fields": [{"name": "again", "type": "Itself"}]}
EMPTY = {"type": "record", "name": "Empty", "fields": []}


def nested(levels: int) -> Any:
    """Records in records, each with two of the next; the innermost has none."""
    found: Any = {"type": "record", "name": "R0", "fields": []}
    for number in range(levels):
        twice = [{"name": "a", "type": found}, {"name": "b", "type": f"R{number}"}]
        found = {"type": "record", "name": f"R{number + 1}", "fields": twice}
    return found


def chained(count: int) -> Any:
    """A union of records, each with the one before it: deep, though the text is not."""
    links = [{"type": "record", "name": "L0", "fields": [{"name": "a", "type": "int"}]}]
    links += [
        {"type": "record", "name": f"L{number}", "fields": [{"name": "a", "type": f"L{number - 1}"}]}
        for number in range(1, count)
    ]
    return links


HARMFUL = {
    "may nest without end": NODE,
    "nests without end": ITSELF,
    "twice the values at each level, of no bytes": nested(40),
    "too many levels": chained(100),
    "far too many levels": chained(3000),
    "a list of null": ENDLESS,
    "a list of a type that has no bytes": [EMPTY, {"type": "array", "items": "Empty"}],
    "a list of fixed that have no bytes": {"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}},
    "a size that is none": {"type": "fixed", "name": "F", "size": "x"},
    "fields that are none": {"type": "record", "name": "R", "fields": 5},
    "a type that is none": {"type": {}},
    "no type": {},
    "a number": 5,
}


@pytest.mark.parametrize(
    "text",
    [*map(json.dumps, HARMFUL.values()), '{"type": "array", "items": ' * 900 + '"int"' + "}" * 900, "["],
    ids=[*HARMFUL, "deep JSON", "no JSON"],
)
def test_a_schema_that_could_do_harm_or_is_none_is_refused(text: str) -> None:
    """Accidents: a value of a type within itself took the whole process with it, others never came to an end."""
    with pytest.raises(SchemaError):
        AvroCodec(Source("AVRO", text))


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ([EMPTY, {"type": "map", "values": "Empty"}], {"a": {}}),
        (chained(60), None),
        ({"type": "array", "items": ["null", ORDER]}, [None, {"id": 1, "who": "anna"}]),
        ({**ORDER, "namespace": "shop", "name": "Order"}, {"id": 1, "who": "anna"}),
    ],
    ids=["nothing in a union", "levels", "null in a union", "namespace"],
)
def test_others_are_read(schema: Any, value: Any) -> None:
    found = codec(schema)
    if value is not None:
        assert found.decode(Framed(1, written(schema, value))) == value
        assert found.encode(value) == written(schema, value)


def wrapped(levels: int) -> Any:
    """A list of records in records, each with one field: an object at each level for each byte."""
    found: Any = "int"
    for number in range(levels):
        found = {"type": "record", "name": f"W{number}", "fields": [{"name": "a", "type": found}]}
    return {"type": "array", "items": found}


def test_lists_of_values_within_values_are_read_only_as_far_as_their_objects_are_few() -> None:
    """A byte in a list of sixty levels is sixty objects."""
    for levels, most in ((1, 80_000), (50, 5_000)):
        schema = codec(wrapped(levels))
        assert schema.longest * (levels + 2) <= MOST_VALUES
        assert schema.longest >= most
    plain = codec(wrapped(50)["items"])
    assert plain.longest == LONGEST_VALUE


def test_a_value_that_is_too_long_or_of_another_schema_is_no_value() -> None:
    for content in (b"\0" * (LONGEST_VALUE + 1), b"", b"\xff"):
        with pytest.raises(SchemaError):
            codec("bytes").decode(Framed(1, content))
