"""The metrics that clients push, read from their binary form."""

from __future__ import annotations

import pytest

from protocol.otlp import MOST_FIELDS, MalformedMetricsError, Point, decode_points
from tests.unit.protocol.otlp_messages import counted, field, gauge, metrics_data, number_field, point


def test_gauges_and_sums_are_read_with_their_attributes() -> None:
    data = metrics_data(
        gauge("a.rate", point(0.5, {"node.id": "1"}), point(-7)),
        counted("a.total", point(3)),
        counted("b.total", point(4), temporality=2),
        counted("a.size", point(5), monotonic=False),
    )
    assert list(decode_points(data)) == [
        Point("a.rate", 0.5, (("node.id", "1"),)),
        Point("a.rate", -7, ()),
        Point("a.total", 3, (), is_sum=True, is_delta=True),
        Point("b.total", 4, (), is_sum=True),
        Point("a.size", 5, (), is_delta=True),
    ]


def test_attributes_of_every_simple_kind_are_texts() -> None:
    attributes: dict[str, str | bool | int | float] = {"text": "é", "yes": True, "no": False, "whole": -5, "real": 1.5}
    (found,) = decode_points(metrics_data(gauge("a", point(1, attributes))))
    assert dict(found.attributes) == {"text": "é", "yes": "true", "no": "false", "whole": "-5", "real": "1.5"}


def test_what_is_not_known_is_passed_over() -> None:
    histogram = field(1, "h") + field(9, field(1, b""))
    more = number_field(15, 300) + field(14, b"new")
    data = metrics_data(histogram, gauge("a", point(1) + more) + more)
    assert [one.name for one in decode_points(data + more)] == ["a"]


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"\x0a\x05abc", "a field of 5 bytes where 3 are left"),
        (b"\xff" * 11, "a number that does not end"),
        (b"\x80", "a number that does not end"),
        (b"\x0b", "wire type 3"),
        (b"\x08\x01", "a number where a message was expected"),
        (metrics_data(field(1, b"\xff")), "not UTF-8"),
        (metrics_data(field(1, "a") + field(5, field(1, field(4, b"abc")))), "3 bytes where a number"),
    ],
)
def test_bytes_that_are_no_metrics_are_refused(data: bytes, complaint: str) -> None:
    with pytest.raises(MalformedMetricsError, match=complaint):
        list(decode_points(data))


def test_no_more_fields_are_read_than_a_sound_client_has() -> None:
    with pytest.raises(MalformedMetricsError, match=f"more than {MOST_FIELDS} fields"):
        list(decode_points(number_field(9, 1) * (MOST_FIELDS + 1)))
