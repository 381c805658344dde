"""What a record has compares with what a test wrote: text or bytes."""

from __future__ import annotations

import base64
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.record import Bytes, Record

RECORD = Record.of(
    {
        "topic": "t",
        "partition": 0,
        "offset": 3,
        "timestamp": 1,
        "key": "7",
        "value": '{"id": 7}',
        "headers": [
            {"key": "trace", "value": "abc"},
            {"key": "raw", "value_base64": "/w=="},
            {"key": "x", "value": None},
        ],
    }
)


def test_keys_values_and_headers_come_out_as_they_went_in() -> None:
    assert RECORD.key == "7" == RECORD.key
    assert RECORD.key == b"7"
    assert RECORD.key != "8"
    assert RECORD.key != 7
    assert (RECORD.value, RECORD.text, RECORD.json()) == ('{"id": 7}', '{"id": 7}', {"id": 7})
    assert RECORD.headers == {"trace": "abc", "raw": b"\xff", "x": None}
    assert RECORD.headers == [("trace", "abc"), ("raw", b"\xff"), ("x", None)]
    assert RECORD.headers != {"trace": "abc"}
    assert RECORD.headers["trace"] == "abc" == RECORD.headers.get("trace")
    assert (RECORD.headers["trace"].text, RECORD.headers.get("none")) == ("abc", None)


@given(st.binary(), st.text())
def test_bytes_are_equal_to_their_text_and_to_nothing_else(content: bytes, text: str) -> None:
    is_text = content == text.encode(errors="surrogatepass")
    assert (Bytes(content) == text) is (text == Bytes(content)) is is_text
    assert (Bytes(content) != text) is not is_text
    assert Bytes(content) == content
    assert hash(Bytes(content)) == hash(content)
    assert pickle.loads(pickle.dumps(Bytes(content))) == content


def test_what_is_no_text_is_bytes() -> None:
    record = Record.of(
        {
            "topic": "t",
            "partition": 0,
            "offset": 0,
            "timestamp": 0,
            "key": None,
            "value_base64": base64.b64encode(b"\xff").decode(),
            "headers": [],
        }
    )
    assert (record.key, record.value) == (None, b"\xff")
    assert record.value != "\xff"
    with pytest.raises(UnicodeDecodeError):
        _ = record.text
