"""Whether a record is the expected one, and what is said of the nearest."""

from __future__ import annotations

import json

import pytest

from broker.testkit.control.endpoint import ControlError
from broker.testkit.control.record_reads import Difference, Expected, distance
from odradek.schemas.json_text import MOST_NESTED
from protocol.records.build import Record


def record(
    value: bytes | None = b'{"id": 7, "lines": [{"sku": "a"}], "paid": true}', key: bytes | None = b"7"
) -> Record:
    return Record(3, 1_000, key, value, ((b"trace", b"t1"), (b"trace", b"t2")))


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"key": "7"},
        {"json": {"id": 7}},
        {"json": {"lines": [{"sku": "a"}], "paid": True}, "key": "7"},
        {"json": {}},
        {"headers": {"trace": "t1"}},
        {"headers": {"trace": "t2"}},
        {"value": '{"id": 7, "lines": [{"sku": "a"}], "paid": true}'},
        {"key_base64": "Nw=="},
    ],
)
def test_what_is_not_named_may_be_anything(wanted: dict[str, object]) -> None:
    assert Expected.of(wanted).differences(record()) == []


@pytest.mark.parametrize(
    ("wanted", "differences"),
    [
        ({"key": "8"}, [Difference("key", '"8"', '"7"')]),
        ({"json": {"id": 8}}, [Difference("value.id", "8", "7")]),
        ({"json": {"name": "x"}}, [Difference("value.name", '"x"', "nothing")]),
        ({"json": {"lines": [{"sku": "b"}]}}, [Difference("value.lines[0].sku", '"b"', '"a"')]),
        ({"json": {"lines": []}}, [Difference("value.lines", "[]", '[{"sku": "a"}]', 0)]),
        ({"json": {"paid": 1}}, [Difference("value.paid", "1", "true")]),
        ({"headers": {"trace": "t3"}}, [Difference("headers.trace", '"t3"', '"t2"')]),
        ({"headers": {"span": "s"}}, [Difference("headers.span", '"s"', "nothing")]),
    ],
)
def test_each_field_that_differs_is_named(wanted: dict[str, object], differences: list[Difference]) -> None:
    assert Expected.of(wanted).differences(record()) == differences


def test_a_value_that_is_no_json_is_further_away_than_one_with_another_field() -> None:
    expected = Expected.of({"json": {"id": 8, "paid": True}})
    assert distance(expected.differences(record(b"hello"))) > distance(expected.differences(record()))
    assert expected.differences(record(None))[0].actual == "null, which is no JSON"


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"[" * 1_000 + b"]" * 1_000, "nested more than 200 levels deep"),
        (b'{"a":' * 100_000, "nested more than 200 levels deep"),
        (b'{"id":' * 201 + b"1" + b"}" * 201, "nested more than 200 levels deep"),
        (b'{"id": "\xff"}', "utf-8"),
        (b'{"id": %s}' % (b"1" * 5_000), "digits"),
    ],
)
def test_json_that_cannot_be_compared_is_a_difference_that_says_why(value: bytes, why: str) -> None:
    (difference,) = Expected.of({"json": {"id": 8}}).differences(record(value))
    assert "which is no JSON" in difference.actual
    assert why in difference.actual


def test_json_of_the_most_levels_is_compared_all_the_way_down() -> None:
    value: object = 7
    for _ in range(MOST_NESTED - 1):
        value = [value]
    found = json.dumps({"a": value}).encode()
    assert Expected.of({"json": {"a": value}}).differences(record(found)) == []
    (difference,) = Expected.of({"json": {"a": [*value] * 2}}).differences(record(found))  # type: ignore[misc]
    assert difference.field == "value.a"


def test_half_of_a_surrogate_pair_is_shown_as_its_escape() -> None:
    (difference,) = Expected.of({"json": {"id": 8}}).differences(record(b'{"id": "\\ud800"}'))
    assert difference.actual == r'"\ud800"'


def test_tombstones_are_expected_by_name() -> None:
    assert Expected.of({"tombstone": True}).differences(record(None)) == []
    assert [one.field for one in Expected.of({"tombstone": True}).differences(record(b""))] == ["value"]


@pytest.mark.parametrize("wanted", [{"value": "a", "json": {}}, {"tombstone": True, "value_base64": "YQ=="}])
def test_two_ways_to_say_what_the_value_is_are_refused(wanted: dict[str, object]) -> None:
    with pytest.raises(ControlError, match="exclude each other"):
        Expected.of(wanted)


def test_base64_that_is_none_names_the_parameter() -> None:
    with pytest.raises(ControlError, match="expected base64") as caught:
        Expected.of({"key_base64": "?"})
    assert caught.value.parameter == "key_base64"
