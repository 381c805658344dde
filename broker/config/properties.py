"""Java's properties syntax, in which server.properties is written, as `java.util.Properties.load` reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator

# UTF-8's, also as it is read as Latin-1, which Java's properties are: some editors of Windows begin a file with it.
_BYTE_ORDER_MARK = r"\A(?:\xef\xbb\xbf|\ufeff)"
_BLANK = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPE = r"(?s)\\(?:(?:\r\n|\n|\r)[ \t\f]*|u([0-9a-fA-F]{4})|(.))"
_KEY = r"(?s)(?:\\.|[^\\=: \t\f])*"
_SEPARATOR = r"[ \t\f]*(?:[=:][ \t\f]*)?"
_LINE_END = r"\r\n|\n|\r"


def parse_properties(text: str) -> dict[str, str]:
    """Keys and values of `text`; the last one counts if a key is given twice.

    Raises ValueError for a `\\u` that is not followed by four hex digits; it shows no value, which may be a secret.
    """
    pairs: dict[str, str] = {}
    for line in _logical_lines(re.sub(_BYTE_ORDER_MARK, "", text)):
        key = _leading(_KEY, line)
        rest = line[len(key) :]
        try:
            pairs[unescape(key)] = unescape(rest[len(_leading(_SEPARATOR, rest)) :])
        except ValueError as error:
            raise ValueError(f"malformed \\uxxxx at {key}") from error
    return pairs


def _leading(pattern: str, text: str) -> str:
    """The match of `pattern`, which may be empty, at the start of `text`."""
    match = re.match(pattern, text)
    return match.group() if match else ""


def _logical_lines(text: str) -> Iterator[str]:
    """The lines, without comments and blank ones; an odd number of backslashes at its end continues a line."""
    pending: str | None = None
    for natural in re.split(_LINE_END, text):
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


def unescape(text: str) -> str:
    """A value as it is meant where it stands in such a file, be it on several lines. Raises ValueError."""
    if "\\" not in text:
        return text

    def char(match: re.Match[str]) -> str:
        digits, plain = match.groups()
        if digits:
            return chr(int(digits, 16))
        if plain == "u":
            raise ValueError("malformed \\uxxxx")
        return _ESCAPES.get(plain, plain) if plain else ""  # the end of a line that the next one continues

    found = re.sub(_ESCAPE, char, text)
    # Two escapes may be one character beyond the basic plane, as in Java's strings.
    return found if found.isprintable() else found.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
