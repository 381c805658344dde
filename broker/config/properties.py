"""Java's properties syntax, as `java.util.Properties.load` reads it, which is what server.properties is written in."""

from __future__ import annotations

import re
from collections.abc import Iterator

_BLANK = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_KEY = re.compile(r"(?:\\.|[^\\=: \t\f])*", re.DOTALL)
_SEPARATOR = re.compile(r"[ \t\f]*(?:[=:][ \t\f]*)?")
_LINE_END = re.compile(r"\r\n|\n|\r")


def parse_properties(text: str) -> dict[str, str]:
    """Keys and values of `text`; of a key given twice the last one counts.

    Raises ValueError for a `\\u` that is not followed by four hex digits.
    """
    pairs: dict[str, str] = {}
    for line in _logical_lines(text):
        key = _KEY.match(line)
        assert key is not None
        separator = _SEPARATOR.match(line, key.end())
        assert separator is not None
        pairs[_unescape(key.group())] = _unescape(line[separator.end() :])
    return pairs


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments and blank ones; a line that ends in an odd number of backslashes goes on in the next."""
    pending: str | None = None
    for natural in _LINE_END.split(text):
        line = natural.lstrip(_BLANK)
        if pending is None and (not line or line[0] in "#!"):
            continue
        line = (pending or "") + line
        if (len(line) - len(line.rstrip("\\"))) % 2:
            pending = line[:-1]
            continue
        pending = None
        yield line
    if pending:
        yield pending


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text

    def char(match: re.Match[str]) -> str:
        digits, plain = match.groups()
        if digits:
            return chr(int(digits, 16))
        if plain == "u":
            raise ValueError(f"malformed \\uxxxx in {text!r}")
        return _ESCAPES.get(plain, plain)

    return _ESCAPE.sub(char, text)
