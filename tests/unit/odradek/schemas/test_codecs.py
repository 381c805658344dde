"""Values of Avro, JSON Schema and Protobuf, with references, in the form of JSON and back; and what does not fit."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from odradek.schemas import lookup
from odradek.schemas.codecs import LONGEST_VALUE, Codec, codec_of, plain
from odradek.schemas.errors import MissingLibraryError, SchemaError
from odradek.schemas.framing import Framed
from odradek.schemas.lookup import Source

USER = {"type": "record", "name": "User", "namespace": "t", "fields": [{"name": "name", "type": "string"}]}
PAYMENT = {
    "type": "record",
    "name": "Payment",
    "namespace": "t",
    "fields": [
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "by", "type": ["null", "User", "string"], "default": None},
        {"name": "mark", "type": {"type": "fixed", "name": "Mark", "size": 2}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["CARD", "CASH"]}, "default": "CARD"},
    ],
}
NEEDED = {"t.User": json.dumps(USER)}
PAID = {"amount": "1.20", "at": "2026-01-02T03:04:05+00:00", "by": {"name": "Anna"}, "mark": "\x01ÿ", "kind": "CASH"}


def avro(schema: Any, **needed: str) -> Codec:
    return codec_of(Source("AVRO", json.dumps(schema), needed or NEEDED))


def there_and_back(codec: Codec, value: Any) -> Any:
    return plain(codec.decode(Framed(1, codec.encode(value))))


def test_avro_takes_values_as_json_has_them_and_gives_them_so() -> None:
    assert there_and_back(avro(PAYMENT), PAID) == PAID


def test_avro_takes_pythons_values_too() -> None:
    by_python = {
        "amount": Decimal("1.2"),
        "at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        "by": {"name": "Anna"},
        "mark": b"\x01\xff",
        "kind": "CASH",
    }
    assert avro(PAYMENT).encode(by_python) == avro(PAYMENT).encode(PAID)


@pytest.mark.parametrize("schema", [["t.User", PAYMENT], "t.User"])
def test_avros_references_may_be_the_schema_itself(schema: Any) -> None:
    assert there_and_back(avro(schema), {"name": "Bo"}) == {"name": "Bo"}


def test_a_branch_of_a_union_may_be_named_as_in_avros_json() -> None:
    codec = avro({"type": "record", "name": "R", "fields": [{"name": "a", "type": ["null", "int", "t.User"]}]})
    assert codec.encode({"a": {"int": 3}}) == codec.encode({"a": 3})
    assert codec.encode({"a": {"User": {"name": "x"}}}) == codec.encode({"a": {"name": "x"}})


def test_defaults_of_avro_fill_what_is_left_out() -> None:
    left_out = {name: value for name, value in PAID.items() if name not in ("by", "kind")}
    assert there_and_back(avro(PAYMENT), left_out) == {**PAID, "by": None, "kind": "CARD"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"amount": "much"}, "amount = 'much': expected a decimal"),
        ({"kind": "GOLD"}, "kind = 'GOLD': expected one of CARD, CASH"),
        ({"mark": "abc"}, "mark = b'abc': expected 2 bytes"),
        ({"mark": "\u0141x"}, "a character from U\\+0000 to U\\+00FF"),
        ({"by": {"nam": "x"}}, "expected one of null, t.User, string"),
        ({"other": 1}, "has no field other: expected amount, at, by, mark, kind"),
        ({"at": True}, "at = True: expected long"),
    ],
)
def test_what_does_not_fit_an_avro_schema_is_named_with_its_place(change: dict[str, Any], said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        avro(PAYMENT).encode({**PAID, **change})


def test_an_integer_too_large_for_avro_is_refused() -> None:
    assert avro("int").encode(2**31 - 1)
    with pytest.raises(SchemaError, match="expected int"):
        avro("int").encode(2**31)


PROTO = """syntax = "proto3"; package p; import "google/protobuf/timestamp.proto"; import "other.proto";
message Outer { message Inner {
  int64 big = 1; bytes raw = 2; Kind kind = 3; repeated int32 several = 4; map<int32, o.Other> by = 5;
  optional string maybe = 6; google.protobuf.Timestamp at = 7; oneof one { string text = 8; int32 number = 9; }
  enum Kind { NONE = 0; SOME = 1; } } }
message Second { string a = 1; }"""
OTHER = 'syntax = "proto3"; package o; message Other { double d = 1; }'
INNER = {"big": 2**60, "raw": "YWI=", "kind": "SOME", "several": [1, 2], "by": {"3": {"d": 1.5}}, "number": 0}


def proto(message: str | None) -> Codec:
    return codec_of(Source("PROTOBUF", PROTO, {"other.proto": OTHER}), message)


def test_protobuf_has_numbers_as_numbers_and_fields_that_cannot_be_absent() -> None:
    assert there_and_back(proto("p.Outer.Inner"), INNER) == INNER
    empty = {"big": 0, "raw": "", "kind": "NONE", "several": [], "by": {}}
    assert there_and_back(proto("Outer.Inner"), {}) == empty
    at = datetime(2026, 1, 1, tzinfo=UTC)
    assert there_and_back(proto("Outer.Inner"), {"raw": b"ab", "at": at, "maybe": ""}) == {
        **empty,
        "raw": "YWI=",
        "at": "2026-01-01T00:00:00Z",
        "maybe": "",
    }


def test_protobufs_message_is_named_by_indexes_in_front_or_in_the_header() -> None:
    assert proto(None).encode({}) == b"\0"
    content = proto("Second").encode({"a": "x"})
    assert content[:2] == b"\2\2"
    assert proto(None).decode(Framed(1, content)) == {"a": "x"}
    assert proto(None).decode(Framed("guid", content[2:], b"\2\2")) == {"a": "x"}


@pytest.mark.parametrize("content", [b"", b"\4\x08\x08", b"\2\2\xff\xff", b"\xff" * 9, b"\2\2\x0a\x01\xff"])
def test_bytes_of_no_message_are_refused(content: bytes) -> None:
    with pytest.raises(SchemaError, match="not of the schema"):
        proto(None).decode(Framed(1, content))


def test_what_is_no_such_message_is_refused() -> None:
    with pytest.raises(SchemaError, match="nowhere"):
        proto(None).encode({"nowhere": 1})
    with pytest.raises(SchemaError, match=r"no message Third: expected Outer, Second, Outer\.Inner"):
        proto("Third").encode({})
    with pytest.raises(SchemaError, match=r"details: .*Expected message name"):
        codec_of(Source("PROTOBUF", "message {"))
    with pytest.raises(SchemaError, match="no message"):
        codec_of(Source("PROTOBUF", 'syntax = "proto3";')).encode({})
    with pytest.raises(SchemaError, match="no message"):
        codec_of(Source("PROTOBUF", 'syntax = "proto3";')).decode(Framed(1, b"\0"))


def test_every_well_known_type_is_as_in_protobufs_json() -> None:
    text = 'syntax = "proto3"; import "google/protobuf/wrappers.proto"; message M { google.protobuf.Int64Value n = 1; }'
    assert there_and_back(codec_of(Source("PROTOBUF", text)), {"n": 5}) == {"n": "5"}
    assert Timestamp(seconds=1).ToJsonString() == "1970-01-01T00:00:01Z"


HOLDS_ANY = """syntax = "proto3"; package p;
import "google/protobuf/any.proto"; import "google/protobuf/duration.proto";
message M { google.protobuf.Any any = 1; google.protobuf.Duration took = 2; } message Own { int32 n = 1; }"""


def test_an_any_of_protobuf_has_its_message_or_its_parts_where_nobody_knows_that() -> None:
    codec = codec_of(Source("PROTOBUF", HOLDS_ANY))
    own = {"any": {"@type": "type.googleapis.com/p.Own", "n": 5}}
    assert there_and_back(codec, own) == own
    unknown = b"\0\x0a\x08\x0a\x03x/Y\x12\x01a"
    assert codec.decode(Framed(1, unknown)) == {"any": {"type_url": "x/Y", "value": "YQ=="}}
    damaged = b"\0\x0a\x0c\x0a\x07x/p.Own\x12\x01\xff"
    assert codec.decode(Framed(1, damaged)) == {"any": {"type_url": "x/p.Own", "value": "/w=="}}


def test_a_duration_of_protobuf_that_is_none_is_refused() -> None:
    with pytest.raises(SchemaError, match="not of the schema: Duration is not valid"):
        codec_of(Source("PROTOBUF", HOLDS_ANY)).decode(Framed(1, b"\0\x12\x0a\x08" + b"\xff" * 8 + b"\x7f"))


PERSON = {"type": "object", "properties": {"name": {"$ref": "name.json"}}, "required": ["name"]}
NAME = {"name.json": json.dumps({"type": "string", "minLength": 1})}


def test_json_is_validated_when_it_is_written_with_its_references() -> None:
    codec = codec_of(Source("JSON", json.dumps(PERSON), NAME))
    assert codec.encode({"name": "Anna"}) == b'{"name":"Anna"}'
    with pytest.raises(SchemaError, match=r"name: .*non-empty|name: .*too short"):
        codec.encode({"name": ""})
    with pytest.raises(SchemaError, match="the value: 'name' is a required property"):
        codec.encode({})
    assert codec.decode(Framed(1, b'{"other": 1}')) == {"other": 1}
    with pytest.raises(SchemaError, match="cannot be applied"):
        codec_of(Source("JSON", json.dumps(PERSON))).encode({"name": "x"})


@pytest.mark.parametrize("content", [b"{", b"[" * 100_000, b"\xff", b"[" * 300 + b"]" * 300])
def test_json_that_is_none_or_too_deep_is_refused(content: bytes) -> None:
    with pytest.raises(SchemaError, match="no JSON"):
        codec_of(Source("JSON", "{}")).decode(Framed(1, content))


@pytest.mark.parametrize("source", [Source("AVRO", '"bytes"'), Source("JSON", "{}"), Source("PROTOBUF", OTHER)])
def test_a_value_that_is_too_long_is_not_decoded(source: Source) -> None:
    with pytest.raises(SchemaError, match="too many"):
        codec_of(source).decode(Framed(1, b" " * (LONGEST_VALUE + 1)))


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("fastavro", Source("AVRO", '"int"')),
        ("protoc", Source("PROTOBUF", OTHER)),
        ("jsonschema", Source("JSON", "{}")),
    ],
)
def test_a_library_that_is_not_there_is_named(module: str, source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*filter(lambda name: name.partition(".")[0] == module, sys.modules), module]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr("shutil.which", lambda _name: None)
    with pytest.raises(MissingLibraryError, match=r"pip install .*registry"):
        codec_of(source).encode(1)


def test_other_kinds_and_schemas_that_are_too_large_are_refused() -> None:
    with pytest.raises(SchemaError, match="expected a schema of type AVRO, JSON, PROTOBUF"):
        codec_of(Source("THRIFT", ""))
    with pytest.raises(SchemaError, match="too large"):
        codec_of(Source("JSON", "{}", {"a": " " * (1 << 20)}))
    with pytest.raises(SchemaError, match="only Protobuf has messages"):
        codec_of(Source("JSON", "{}"), "M")


class Registry:
    """Answers paths, and notes them."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def ask(self, path: str) -> Any:
        self.asked.append(path)
        return self.answers.get(path)

    async def ask_late(self, path: str) -> Any:
        return self.ask(path)


def reference(name: str, subject: str, version: int = 1) -> dict[str, Any]:
    return {"name": name, "subject": subject, "version": version}


ANSWERS = {
    "/schemas/ids/7": {
        "schema": "main",
        "schemaType": "JSON",
        "references": [reference("b", "s b"), reference("a", "a")],
    },
    "/schemas/guids/g": {"schema": '"int"'},
    "/subjects/s%20b/versions/1?deleted=true": {"schema": "B", "references": [reference("a", "a")]},
    "/subjects/a/versions/1?deleted=true": {"schema": "A"},
    "/subjects/t/versions/latest": {"subject": "t", "version": 3, "id": 9, "schema": "T"},
}


async def test_a_schema_is_looked_up_with_all_that_it_refers_to_each_after_what_it_needs() -> None:
    registry = Registry(ANSWERS)
    found = lookup.run(lookup.by_name(7), registry.ask)
    assert found == Source("JSON", "main", {"a": "A", "b": "B"})
    assert found is not None and list(found.needed) == ["a", "b"]
    assert len(registry.asked) == 3
    assert await lookup.run_async(lookup.by_name(7), registry.ask_late) == found
    assert lookup.run(lookup.by_name("g"), registry.ask) == Source("AVRO", '"int"')
    assert lookup.run(lookup.by_name(8), registry.ask) is None
    assert lookup.run(lookup.by_subject("t"), registry.ask) == lookup.Version("t", 3, 9, Source("AVRO", "T"))
    assert lookup.run(lookup.by_subject("u"), registry.ask) is None


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"schema": "x", "references": [reference("a", "nowhere")]}, "version 1 of nowhere"),
        ({"schema": "x", "references": [{"name": "a"}]}, "no name, subject or version"),
        ({"schema": 5}, "no schema"),
        ([], "no schema"),
    ],
)
def test_answers_that_are_none_of_a_registry_are_refused(answer: Any, said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        lookup.run(lookup.by_name(1), Registry({"/schemas/ids/1": answer}).ask)


def test_references_in_a_circle_come_to_an_end() -> None:
    itself = {"schema": "x", "references": [reference("a", "a")]}
    registry = Registry({"/schemas/ids/1": itself, "/subjects/a/versions/1?deleted=true": itself})
    assert lookup.run(lookup.by_name(1), registry.ask) == Source("AVRO", "x", {"a": "x"})
