"""server.properties as java.util.Properties reads it."""

from __future__ import annotations

import pytest

from broker.config.environment import parse_properties


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("a=b", {"a": "b"}),
        ("a = b ", {"a": "b "}),
        ("a:b\nc : d", {"a": "b", "c": "d"}),
        ("a b c", {"a": "b c"}),
        ("a=b=c:d", {"a": "b=c:d"}),
        ("# comment\n! too\n  # indented\n\n \na=b", {"a": "b"}),
        ("a=1\na=2", {"a": "2"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("a=one,\\\n   two,\\\r\n\tthree", {"a": "one,two,three"}),
        ("a=b\\\n# no comment here", {"a": "b# no comment here"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=b\\", {"a": "b"}),
        ("a\\=b\\:c\\ d=e", {"a=b:c d": "e"}),
        ("a=\\u0041\\t\\n\\q", {"a": "A\t\nq"}),
        ("a=b\rc=d\r\ne=f", {"a": "b", "c": "d", "e": "f"}),
        ("a=#b!", {"a": "#b!"}),
        ("a=x\x85y\u2028z\x0bw\x1cv", {"a": "x\x85y\u2028z\x0bw\x1cv"}),
        ("a=\\ud83d\\ude00\\u00e9", {"a": "\U0001f600\u00e9"}),
        ("", {}),
    ],
)
def test_syntax(text: str, pairs: dict[str, str]) -> None:
    assert parse_properties(text) == pairs


def test_a_malformed_unicode_escape_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"^malformed \\uxxxx at a$"):
        parse_properties("a=secret\\u12")
