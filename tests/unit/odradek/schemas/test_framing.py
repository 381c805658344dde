"""Schema ids in front of a content and GUIDs in headers, as Confluent's serializers write them."""

from __future__ import annotations

import uuid

import pytest
from confluent_kafka.schema_registry.serde import SchemaId
from hypothesis import given
from hypothesis import strategies as st

from odradek.schemas.framing import LARGEST_ID, MOST_INDEXES, Framed, framed, read_indexes, with_prefix, written_indexes

GUID = "89791762-2336-4186-9674-299b90a802e2"
INDEXES = st.lists(st.integers(0, 10_000), min_size=1, max_size=MOST_INDEXES)


@given(st.integers(0, LARGEST_ID), st.binary(max_size=50))
def test_an_id_in_front_is_found_as_confluents_client_writes_it(schema_id: int, payload: bytes) -> None:
    content = SchemaId("AVRO", schema_id).id_to_bytes() + payload
    assert with_prefix(schema_id, payload) == content
    assert framed(content) == Framed(schema_id, payload)


@given(INDEXES)
def test_message_indexes_are_confluents(indexes: list[int]) -> None:
    theirs = SchemaId("PROTOBUF", 1, message_indexes=indexes).id_to_bytes()[5:]
    assert written_indexes(indexes) == theirs
    assert read_indexes(theirs + b"rest") == (indexes, b"rest")


@given(st.binary(max_size=20))
def test_whatever_bytes_stand_where_indexes_should_they_are_read_or_refused(content: bytes) -> None:
    try:
        indexes, rest = read_indexes(content)
    except ValueError:
        return
    assert content.endswith(rest) and 1 <= len(indexes) <= MOST_INDEXES


def test_a_guid_in_a_header_goes_before_the_bytes_in_front() -> None:
    said = SchemaId("AVRO", guid=GUID).guid_to_bytes()
    content = with_prefix(7, b"x")
    assert framed(content, [("__value_schema_id", said)]) == Framed(GUID, content)
    assert framed(content, [(b"__key_schema_id", said)], is_key=True) == Framed(GUID, content)
    assert framed(content, [("__key_schema_id", said)]) == Framed(7, b"x")
    assert framed(content, [("__value_schema_id", said + b"\2\0")]) == Framed(GUID, content, b"\2\0")
    assert uuid.UUID(bytes=said[1:]) == uuid.UUID(GUID)


@pytest.mark.parametrize("said", [b"", b"\1abc", b"\2" + b"x" * 16, None])
def test_a_header_that_is_none_of_a_schema_is_passed_over(said: bytes | None) -> None:
    assert framed(b"plain", [("__value_schema_id", said)]) is None


@pytest.mark.parametrize("content", [None, b"", b"\0\0\0\1", b"\1\0\0\0\1x", b"\0\xff\xff\xff\xffx", b'{"a": 1}'])
def test_what_names_no_schema_has_none(content: bytes | None) -> None:
    assert framed(content) is None
