"""What Java says of strings."""

from __future__ import annotations

import pytest

from protocol.java_strings import java_string_hash, utf16_length


@pytest.mark.parametrize(
    ("text", "hashed"),
    [("", 0), ("a", 97), ("hello", 99162322), ("polygenelubricants", -(2**31)), ("é", 233), ("😀", 55357 * 31 + 56832)],
)
def test_string_hash_code(text: str, hashed: int) -> None:
    assert java_string_hash(text) == hashed


@pytest.mark.parametrize(("text", "length"), [("", 0), ("abc", 3), ("é", 1), ("日本", 2), ("a😀", 3)])
def test_length_counts_utf16_units(text: str, length: int) -> None:
    assert utf16_length(text) == length
