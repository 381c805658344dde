"""Protobuf: each difference and Confluent's judgement, texts and descriptors, and what strangers may write."""

from __future__ import annotations

import base64
import shutil
import tempfile
from pathlib import Path

import pytest

from broker.registry.errors import RegistryError
from broker.registry.formats.parsed import STRICT, Given, Needed, Work
from broker.registry.formats.protobuf import ProtobufSchema, parse
from broker.registry.formats.protobuf_rules import Kind, differences
from broker.registry.records import Reference


def proto(body: str, package: str = "p", syntax: str = "proto3") -> ProtobufSchema:
    return parse(Given(f'syntax = "{syntax}"; package {package}; {body}'))


def message(fields: str, more: str = "") -> str:
    return f"message M {{ {fields} }} {more}"


ROWS: list[tuple[str, str, str]] = [
    ("MESSAGE_ADDED", message(""), message("", "message N {}")),
    ("MESSAGE_REMOVED", message("", "message N {}"), message("")),
    ("MESSAGE_MOVED", "message A {} message B {}", "message B {} message A {}"),
    ("ENUM_ADDED", message(""), message("", "enum E { A = 0; }")),
    ("ENUM_REMOVED", message("", "enum E { A = 0; }"), message("")),
    ("ENUM_CONST_ADDED", "enum E { A = 0; }", "enum E { A = 0; B = 1; }"),
    ("ENUM_CONST_REMOVED", "enum E { A = 0; B = 1; }", "enum E { A = 0; }"),
    ("ENUM_CONST_CHANGED", "enum E { A = 0; B = 1; }", "enum E { A = 0; C = 1; }"),
    ("FIELD_ADDED", message("int32 a = 1;"), message("int32 a = 1; int32 b = 2;")),
    ("FIELD_REMOVED", message("int32 a = 1; int32 b = 2;"), message("int32 a = 1;")),
    ("FIELD_NAME_CHANGED", message("int32 a = 1;"), message("int32 b = 1;")),
    ("FIELD_KIND_CHANGED", message("int32 a = 1;"), message("M a = 1;")),
    ("FIELD_SCALAR_KIND_CHANGED", message("int32 a = 1;"), message("string a = 1;")),
    (
        "FIELD_NAMED_TYPE_CHANGED",
        message("A a = 1;", "message A{} message B{}"),
        message("B a = 1;", "message A{} message B{}"),
    ),
    ("FIELD_NUMERIC_LABEL_CHANGED", message("optional int32 a = 1;"), message("repeated int32 a = 1;")),
    ("FIELD_STRING_OR_BYTES_LABEL_CHANGED", message("optional string a = 1;"), message("repeated string a = 1;")),
    ("ONEOF_ADDED", message(""), message("oneof o { int32 a = 1; }")),
    ("ONEOF_REMOVED", message("oneof o { int32 a = 1; }"), message("")),
    ("ONEOF_FIELD_ADDED", message("oneof o { int32 a = 1; }"), message("oneof o { int32 a = 1; int32 b = 2; }")),
    ("ONEOF_FIELD_REMOVED", message("oneof o { int32 a = 1; int32 b = 2; }"), message("oneof o { int32 a = 1; }")),
    (
        "ONEOF_FIELD_MOVED_TO_TOP_LEVEL",
        message("oneof o { int32 a = 1; int32 b = 2; }"),
        message("oneof o { int32 a = 1; } int32 b = 2;"),
    ),
    (
        "MULTIPLE_FIELDS_MOVED_TO_ONEOF",
        message("int32 a = 1; int32 b = 2;"),
        message("oneof o { int32 a = 1; int32 b = 2; }"),
    ),
    (
        "FIELD_MOVED_TO_EXISTING_ONEOF",
        message("oneof o { int32 a = 1; } int32 b = 2;"),
        message("oneof o { int32 a = 1; int32 b = 2; }"),
    ),
]
ALONG = {"ONEOF_ADDED", "ONEOF_FIELD_ADDED", "FIELD_ADDED"}
"""What goes along with some."""

GROUPS = (
    ("int32", "int64", "uint32", "uint64", "bool", "E"),
    ("sint32", "sint64"),
    ("string", "bytes"),
    ("fixed32", "sfixed32"),
    ("fixed64", "sfixed64"),
    ("float",),
    ("double",),
)


def check(kind: str, earlier: ProtobufSchema, later: ProtobufSchema) -> None:
    found = {each.kind.name for each in differences(earlier.files, later.files, Work())}
    assert kind in found
    assert found - {kind} <= ALONG
    problems = later.problems(earlier, STRICT, Work())
    assert bool(problems) != Kind[kind].value.allowed
    assert earlier.problems(earlier, STRICT, Work()) == later.problems(later, STRICT, Work()) == []


@pytest.mark.parametrize(("kind", "earlier", "later"), ROWS, ids=lambda one: one if one.isupper() else "")
def test_a_difference_is_found_and_judged(kind: str, earlier: str, later: str) -> None:
    check(kind, proto(earlier), proto(later))


def test_packages_and_required_fields() -> None:
    check("PACKAGE_CHANGED", proto(message("")), proto(message(""), package="q"))
    with_one = proto(message("required int32 a = 1;"), syntax="proto2")
    check("REQUIRED_FIELD_REMOVED", with_one, proto(message(""), syntax="proto2"))
    check("REQUIRED_FIELD_ADDED", proto(message(""), syntax="proto2"), with_one)


def test_every_rule_has_a_row() -> None:
    alone = {"PACKAGE_CHANGED", "REQUIRED_FIELD_ADDED", "REQUIRED_FIELD_REMOVED"}
    assert {kind.name for kind in Kind} == {row[0] for row in ROWS} | alone


def test_scalars_are_compatible_within_their_group_alone() -> None:
    every = [(kind, at) for at, group in enumerate(GROUPS) for kind in group]
    schemas = {kind: proto(message(f"{kind} a = 1;", "enum E { A = 0; }")) for kind, _ in every}
    for kind, group in every:
        for other, other_group in every:
            fits = schemas[other].problems(schemas[kind], STRICT, Work()) == []
            assert fits == (group == other_group), (kind, other)


def test_maps_are_compared_by_key_and_value() -> None:
    def map_of(key: str, value: str) -> ProtobufSchema:
        return proto(message(f"map<{key}, {value}> a = 1;"))

    assert map_of("string", "int64").problems(map_of("string", "int32"), STRICT, Work()) == []
    assert map_of("string", "string").problems(map_of("string", "int32"), STRICT, Work())
    assert proto(message("repeated M a = 1;")).problems(map_of("string", "int32"), STRICT, Work())


def test_messages_that_refer_to_themselves_are_compared_once() -> None:
    tree = proto(message("M left = 1; M right = 2; int32 a = 3;"))
    assert tree.problems(tree, STRICT, Work(100)) == []
    assert proto(message("M left = 1; M right = 2; string a = 3;")).problems(tree, STRICT, Work(100))


def needing(text: str, name: str = "other.proto") -> ProtobufSchema:
    other = Needed(name, text, Reference(name, "other", 1))
    body = f'syntax = "proto3"; package p; import "{name}"; message M {{ o.N n = 1; }}'
    return parse(Given(body, (other.reference,), (other,)))


def test_imports_are_references_and_a_change_in_them_counts() -> None:
    one = 'syntax = "proto3"; package o; message N { int32 a = 1; }'
    first = needing(one)
    assert needing(one, "x/y.proto").problems(first, STRICT, Work()) == []
    assert needing(one.replace("int32", "int64")).problems(first, STRICT, Work()) == []
    problems = needing(one.replace("int32", "string")).problems(first, STRICT, Work())
    assert any("FIELD_NAMED_TYPE_CHANGED" in problem for problem in problems)
    for known in ("google/protobuf/timestamp.proto", "confluent/meta.proto", "confluent/type/decimal.proto"):
        parse(Given(f'syntax = "proto3"; import "{known}"; message M {{}}'))


BIG = """syntax = "proto2";
package a.b;
import "google/protobuf/timestamp.proto";
option java_package = "x\\"y";
message M {
  option deprecated = true;
  reserved 3, 5 to 7, 1000 to max;
  reserved "old";
  required string name = 1 [default = "a\\"b"];
  optional bytes raw = 2 [default = "\\001\\377"];
  repeated int32 many = 4 [packed = true];
  map<string, M.Inner> inner = 8;
  oneof choice { google.protobuf.Timestamp at = 9; E e = 10; }
  optional double limit = 11 [default = inf];
  optional string named = 12 [json_name = "other"];
  message Inner { enum F { Z = 0; } optional F f = 1 [default = Z]; }
  extensions 100 to 199;
}
enum E { option allow_alias = true; A = 0; B = 0; C = -1; }
extend M { optional int32 more = 100; }
service S { rpc Ask (M) returns (stream M) { option deprecated = true; } }
"""


def test_a_descriptor_is_kept_as_a_text_that_means_the_same() -> None:
    by_text = parse(Given(BIG))
    by_descriptor = parse(Given(by_text.formatted("serialized")))
    assert by_descriptor.file == by_text.file
    assert "message M" in by_descriptor.text
    assert parse(Given(by_descriptor.text)).text == by_descriptor.text
    assert by_text.text == BIG
    assert parse(Given(by_text.normalized())).normalized() == by_text.normalized()


def test_spaces_have_no_meaning_and_comments_have() -> None:
    one = proto(message("int32 a = 1;"))
    assert proto(message("int32  a=1 ;\n")).meaning == one.meaning
    assert proto(message("// what it is\n int32 a = 1;")).meaning != one.meaning


@pytest.mark.parametrize(
    "wrong",
    [
        "x",
        "syntax",
        "message M { int32 a = 1; int32 b = 1; }",
        'syntax = "proto3"; message M { Unknown a = 1; }',
        'import "none.proto";',
        'import "/etc/passwd";',
        'import "../../../etc/passwd";',
        base64.b64encode(b"\xff\xff\xff").decode(),
    ],
)
def test_what_is_no_schema_is_refused(wrong: str) -> None:
    with pytest.raises(RegistryError) as refused:
        parse(Given(wrong))
    assert "/tmp" not in str(refused.value)


@pytest.mark.parametrize("name", ["../x.proto", "/x.proto", "a/../../x.proto", "a//b", "", "a\0b", "x" * 2000, "-o"])
def test_a_reference_writes_nothing_elsewhere(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    other = Needed(name, "x", Reference(name, "s", 1))
    with pytest.raises(RegistryError):
        parse(Given('syntax = "proto3"; message M {', (other.reference,), (other,)))
    assert list(tmp_path.iterdir()) == []


def test_without_the_wheel_the_machines_compiler_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "protoc", None)
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    with pytest.raises(RegistryError, match="pip install"):
        proto(message(""))


@pytest.mark.parametrize("text", [" " * 800_000 + "{", "A " * 400_000 + "{", "A" * 800_000 + "{"])
def test_a_long_text_that_is_nearly_a_descriptor_is_refused_in_linear_time(text: str) -> None:
    with pytest.raises(RegistryError):
        parse(Given(text))
