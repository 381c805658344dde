"""What a test gives for a schema: a file, a text or a dict; its type and its subject follow from that."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from odradek.record import Record, Schema, record_as_json
from odradek.registry import Registry, read_schema
from odradek.topic import Topic

AVRO: Mapping[str, Any] = {"type": "record", "name": "R", "fields": []}
JSON: Mapping[str, Any] = {"$schema": "http://json-schema.org/draft-07/schema#"}
PROTO = 'syntax = "proto3"; message M { int32 id = 1; }'


class Control:
    """Notes what it is asked, and answers what an endpoint would."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def post(self, path: str, **values: Any) -> dict[str, Any]:
        self.asked.append((path, {name: value for name, value in values.items() if value is not None}))
        return {"id": 7, "urls": ["http://127.0.0.1:1"], "records": []}


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (AVRO, "AVRO"),
        ('"string"', "AVRO"),
        ("int", "AVRO"),
        ('["null", "int"]', "AVRO"),
        ('{"type": "record"', "AVRO"),
        (JSON, "JSON"),
        ({}, "JSON"),
        ('{"type": "object"}', "JSON"),
        ({"oneOf": []}, "JSON"),
        ("true", "JSON"),
        (PROTO, "PROTOBUF"),
        ("message M {}", "PROTOBUF"),
    ],
)
def test_the_type_of_a_schema_follows_from_what_it_looks_like(given: Any, kind: str) -> None:
    text, found = read_schema(given)
    assert found == kind
    assert text == given or json.loads(text) == given


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("orders.avsc", json.dumps(AVRO), "AVRO"),
        ("orders.json", "{}", "JSON"),
        ("orders.proto", PROTO, "PROTOBUF"),
        ("orders.txt", PROTO, "PROTOBUF"),
    ],
)
def test_a_file_is_read_and_its_suffix_says_the_type(tmp_path: Path, name: str, text: str, kind: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert read_schema(path) == (text, kind)
    if not name.endswith(".txt"):
        assert read_schema(str(path)) == (text, kind)


def test_a_file_that_is_not_there_is_named_and_no_schema_is_refused() -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere\.avsc"):
        read_schema("nowhere.avsc")
    given: Any = 3
    with pytest.raises(TypeError, match="schema = 3: expected the path of a file, a text or a dict"):
        read_schema(given)


@pytest.mark.parametrize(
    ("name", "key", "subject"),
    [
        ("orders", False, "orders-value"),
        ("orders", True, "orders-key"),
        ("orders-value", False, "orders-value"),
        ("orders-key", False, "orders-key"),
        ("a/b", False, "a%2Fb-value"),
    ],
)
def test_the_name_of_a_topic_stands_for_its_subject(name: str, key: bool, subject: str) -> None:
    control: Any = Control()
    assert Registry(lambda: control).register(name, AVRO, key=key, references={"t.User": "users"}) == 7
    ((path, body),) = control.asked
    assert path == f"/registry/subjects/{subject}"
    assert body["references"] == [{"name": "t.User", "subject": "users", "version": -1}]


def test_a_record_is_produced_by_an_id_the_latest_version_or_a_schema_that_is_registered_for_it() -> None:
    control: Any = Control()
    topic = Topic(lambda: control, "orders", 1)
    topic.produce_many([{"value": {"id": 1}}, {"value": None}], schema=AVRO, key_schema=3)
    (registered, _), (_, body) = control.asked
    assert registered == "/registry/subjects/orders-value"
    assert body["records"] == [{"json": {"id": 1}, "schema": {"id": 7}}, {}]
    control.asked.clear()
    topic.produce_many([{"value": 1, "schema": 9}, {"value": 2}], schema="latest", message="M")
    ((_, body),) = control.asked
    assert body["records"] == [
        {"json": 1, "schema": {"id": 9, "message": "M"}},
        {"json": 2, "schema": {"message": "M"}},
    ]
    given: Any = True
    with pytest.raises(TypeError, match="schema = True: expected an id"):
        topic.produce(1, schema=given)


def test_a_value_is_sent_as_json_has_it() -> None:
    assert record_as_json({"price": Decimal("2.50")}, schema={"id": 1}) == {
        "json": {"price": "2.50"},
        "schema": {"id": 1},
    }


def answered(**fields: Any) -> Record:
    rest = {"topic": "t", "partition": 0, "offset": 3, "timestamp": 1, "key": None, "headers": []}
    return Record.of({**rest, "value_base64": "AAAAAAEC", **fields})


def test_a_record_has_what_its_schema_decodes() -> None:
    record = answered(json={"id": 1}, schema={"id": 1, "type": "AVRO"})
    assert (record.decoded, record.json(), record.schema) == ({"id": 1}, {"id": 1}, Schema(1, "AVRO", {"id": 1}))
    with pytest.raises(ValueError, match="the key at offset 3 of t-0 names no schema"):
        _ = record.decoded_key
    assert answered(json=2, schema={"guid": "g", "type": "JSON"}).schema == Schema("g", "JSON", 2)


def test_a_record_that_is_not_decoded_says_why() -> None:
    record = answered(schema={"id": 1, "type": None, "problem": "the registry has no schema 1"})
    with pytest.raises(ValueError, match="at offset 3 of t-0 is not decoded by schema 1: the registry has no schema 1"):
        _ = record.decoded
    with pytest.raises(ValueError, match="is not decoded by schema 1: the registry has no schema 1"):
        record.json()
