"""Protobuf messages as columns: `lake --schema TOPIC=protobuf`. Written by Google's library from its own JSON."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="requirements-pipeline.txt is not installed")

from google.protobuf.json_format import ParseDict
from pyspark.sql import types as T

from odradek_pipeline.lake.decoders import ProtobufDecoder, decoder_of
from odradek_pipeline.lake.naming import LakeError
from odradek_pipeline.lake.protobuf_rows import arrow_type, read_values
from odradek_pipeline.lake.schema_files import schema_of_file
from odradek_pipeline.lake.widening import NoColumn, union
from odradek_pipeline.registry import RegisteredSchema
from odradek_pipeline.schemas.framing import written_indexes
from odradek_pipeline.schemas.lookup import PROTOBUF
from odradek_pipeline.schemas.protobuf import Messages
from odradek_pipeline.schemas.registry_specs import RegisteredSpec

TEXT = """syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/wrappers.proto";
enum State { NEW = 0; PAID = 1; }
message Empty {}
message Line { string sku = 1; double price = 2; }
message Tree { string name = 1; repeated Tree below = 2; }
message Order {
  int32 id = 1; uint32 small = 2; uint64 large = 3; sint64 change = 4; fixed64 fixed = 5;
  bool good = 6; float ratio = 7; string name = 8; bytes raw = 9; State state = 10;
  optional int32 may = 11;
  oneof either { string text = 12; int64 number = 13; }
  repeated Line lines = 14; map<int32, Line> by_number = 15; map<bool, string> by_truth = 16;
  google.protobuf.Timestamp at = 17; google.protobuf.Duration took = 18; google.protobuf.Struct any = 19;
  google.protobuf.UInt64Value wrapped = 20; Tree tree = 21; Empty empty = 22;
  message Inner { int32 n = 1; }
}
"""
VALUE: dict[str, Any] = {
    "id": -7,
    "small": 4294967295,
    "large": "18446744073709551615",
    "change": "-5",
    "fixed": "1",
    "good": True,
    "ratio": 0.5,
    "name": "é",
    "raw": "AAE=",
    "state": "PAID",
    "number": "0",
    "lines": [{"sku": "a", "price": 1.5}, {}],
    "by_number": {"3": {"sku": "b"}},
    "by_truth": {"true": "yes"},
    "at": "1969-12-31T23:59:59.999999Z",
    "took": "-1.5s",
    "any": {"x": [1, None]},
    "wrapped": "3",
    "tree": {"name": "root", "below": [{"name": "leaf", "below": [{}]}]},
    "empty": {},
}


def decoder(text: str = TEXT, message: str = "Order") -> ProtobufDecoder:
    found = decoder_of(RegisteredSchema(PROTOBUF, text, message=message))
    assert isinstance(found, ProtobufDecoder)
    return found


def payload(made: ProtobufDecoder, value: dict[str, Any]) -> bytes:
    message = ParseDict(value, Messages(made.compiled).class_at(made.indexes)())
    return bytes(message.SerializeToString())


def read(
    made: ProtobufDecoder, content: bytes, column: T.StructType | None = None, is_framed: bool = False
) -> dict[str, Any]:
    reading = made.reading(is_framed, "does not fit schema 7")
    (row,) = read_values(["7"], [content], {"7": reading}, column or made.column).to_pylist()
    return dict(row)


def test_every_type_has_a_column_and_a_value() -> None:
    made = decoder()
    kinds = {field.name: field.dataType.simpleString() for field in made.column.fields}
    line = "struct<sku:string,price:double>"
    assert kinds == {
        **{"id": "int", "small": "bigint", "large": "decimal(20,0)", "change": "bigint", "fixed": "decimal(20,0)"},
        **{"good": "boolean", "ratio": "float", "name": "string", "raw": "binary", "state": "string", "may": "int"},
        **{"text": "string", "number": "bigint", "lines": f"array<{line}>", "by_number": f"map<string,{line}>"},
        **{"by_truth": "map<string,string>", "at": "timestamp", "took": "bigint", "any": "string"},
        **{"wrapped": "decimal(20,0)", "tree": "struct<name:string,below:array<string>>", "empty": "string"},
    }
    found = read(made, payload(made, VALUE))
    assert (found["problem"], found["unknown"]) == (None, [])
    value = found["value"]
    assert value.pop("at").isoformat() == "1969-12-31T23:59:59.999999+00:00"
    assert value == {
        **{"id": -7, "small": 4294967295, "large": Decimal(18446744073709551615), "change": -5, "fixed": Decimal(1)},
        **{"good": True, "ratio": 0.5, "name": "é", "raw": b"\0\1", "state": "PAID", "may": None},
        **{"text": None, "number": 0, "lines": [{"sku": "a", "price": 1.5}, {"sku": "", "price": 0.0}]},
        **{"by_number": [("3", {"sku": "b", "price": 0.0})], "by_truth": [("true", "yes")]},
        **{"took": -1_500_000, "any": '{"x": [1.0, null]}', "wrapped": Decimal(3), "empty": "{}"},
        "tree": {"name": "root", "below": ['{"name": "leaf", "below": [{}]}']},
    }


def test_what_is_absent_is_null_and_what_has_a_default_has_it() -> None:
    made = decoder()
    value = read(made, b"")["value"]
    lacking = {"may", "text", "number", "at", "took", "any", "wrapped", "tree", "empty"}
    assert {name for name, content in value.items() if content is None} == lacking
    assert (value["id"], value["state"], value["lines"]) == (0, "NEW", [])
    assert read(made, bytes([10 << 3, 9]))["value"]["state"] == "9", "of an enum's unknown number the number is told"


def test_a_column_of_several_schemas_takes_each_as_it_is() -> None:
    old = decoder('syntax = "proto3"; message Order { int32 id = 1; Line line = 2; message Line { string sku = 1; } }')
    new = decoder(
        'syntax = "proto3"; message Order { double id = 1; Line line = 2; string x = 3;'
        "message Line { string sku = 1; int32 n = 2; } }"
    )
    both = union(old.column, new.column)
    assert isinstance(both, T.StructType)
    found = read(old, payload(old, {"id": 5, "line": {"sku": "a"}}), both)["value"]
    assert found == {"id": 5.0, "line": {"sku": "a", "n": None}, "x": None}
    assert arrow_type(both).field("id").type == "double"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"\0\x08", "does not fit schema 7: "),
        (b"", "no message indexes before the message"),
        (written_indexes([1]) + b"", r"it is of message \[1\], and \[3\] \(Order\) is wanted"),
        (written_indexes([3]) + bytes([8 << 3 | 2, 1, 255]), "does not fit schema 7: "),
    ],
    ids=["no message", "nothing", "another message", "UTF-8"],
)
def test_what_does_not_fit_is_told(content: bytes, why: str) -> None:
    found = read(decoder(), content, is_framed=True)
    assert found["value"] is None
    assert re.search(why, found["problem"])


def test_a_time_that_is_none_and_a_required_field_that_is_missing_do_not_fit() -> None:
    late = b"\x8a\x01\x0a\x08" + b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f"
    assert "Timestamp cannot have 9223372036854775807 seconds" in read(decoder(), late)["problem"]
    old = decoder('syntax = "proto2"; message Order { required int32 id = 1; }')
    assert read(old, b"")["problem"] == "does not fit schema 7: required field id is missing"


def test_an_any_of_an_unknown_message_within_a_message_within_itself_is_a_dead_letter() -> None:
    made = decoder(
        'syntax = "proto3"; import "google/protobuf/any.proto";'
        "message Order { Tree tree = 1; } message Tree { Tree below = 1; google.protobuf.Any any = 2; }"
    )
    found = read(made, b"\x0a\x0c\x0a\x0a\x12\x08\x0a\x03x/Y\x12\x01a")
    assert found["value"] is None
    assert found["problem"].startswith("does not fit schema 7: Can not find message descriptor by type_url")


def test_fields_that_the_schema_does_not_name_are_told_by_number() -> None:
    made = decoder()
    more = bytes([14 << 3 | 2, 4, 9 << 3, 1, 9 << 3, 1])
    assert read(made, payload(made, {"id": 1}) + more + b"\xf8\x07\x01")["unknown"] == ["lines.9", "127"]


def test_a_schema_without_the_message_or_without_fields_has_no_column() -> None:
    with pytest.raises(NoColumn, match=r"no message Nothing: expected Empty, Line, Tree, Order, Order\.Inner"):
        decoder(message="Nothing")
    with pytest.raises(NoColumn, match="message Empty has no field"):
        decoder(message="Empty")
    with pytest.raises(NoColumn, match="Invalid schema of type PROTOBUF"):
        decoder("no text of a .proto file")
    assert decoder(message="shop.Order.Inner").indexes == (3, 2), "behind the messages that the compiler makes for maps"


def test_a_file_comes_with_what_it_imports(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "line.proto").write_text('syntax = "proto3"; message Line { string sku = 1; }')
    main = tmp_path / "order.proto"
    main.write_text('syntax = "proto3"; import "a/line.proto"; message Order { Line line = 1; }'.replace("; i", ";\ni"))
    schema = schema_of_file("t", RegisteredSpec(PROTOBUF, file=str(main)))
    assert decoder_of(schema).column.simpleString() == "struct<line:struct<sku:string>>"
    with pytest.raises(LakeError, match=r"topic t: --schema: .*No such file"):
        schema_of_file("t", RegisteredSpec(PROTOBUF, file=str(tmp_path / "no.proto")))
