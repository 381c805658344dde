"""Bytes of keys and values as people read them, and the fields of JSON. Pure functions."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from broker.control.record_json import json_of

FORMATS = ("auto", "text", "json", "hex")
LONGEST = 1 << 20
"""More bytes than these of one value are never shown."""

ON_A_LINE = 16


class Shown(NamedTuple):
    """`text` is None for null; `kind` says what it was taken for, and `cut` how many bytes are left out."""

    text: str | None
    kind: str
    cut: int = 0


def decoded(content: bytes | None, form: str = "auto", most: int = LONGEST, *, indented: bool = False) -> Shown:
    """The first `most` bytes at least. As JSON it is indented over several lines if it is shown whole."""
    if content is None:
        return Shown(None, "null")
    part, cut = content[:most], max(len(content) - most, 0)
    if form == "hex":
        return Shown(_hex(part), "hex", cut)
    if form in ("auto", "json") and (indented or form == "json") and not cut:
        found = as_json(content)
        if found is not None:
            text = json.dumps(found, ensure_ascii=False, indent=2 if indented else None)
            return Shown(text, "JSON")
    try:
        text = part.decode("utf-8", "replace" if form == "text" else "strict")
    except UnicodeDecodeError as error:
        if not cut or error.start < len(part) - 3:  # a character may be cut in two
            return Shown(_hex(part), "hex", cut)
        text = part[: error.start].decode()
    if form == "auto" and any(ord(character) < 32 and character not in "\n\r\t" for character in text):
        return Shown(_hex(part), "hex", cut)
    return Shown(text, "text", cut)


def _hex(content: bytes) -> str:
    """Lines of an offset, sixteen bytes, and what they are as ASCII."""
    lines = []
    for at in range(0, len(content), ON_A_LINE):
        line = content[at : at + ON_A_LINE]
        readable = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in line)
        lines.append(f"{at:08x}  {line.hex(' '):47}  {readable}")
    return "\n".join(lines)


def as_json(content: bytes | None) -> Any | None:
    """The value, if it is an object or a list in JSON."""
    if not content or content.lstrip()[:1] not in (b"{", b"["):
        return None
    try:
        return json_of(content)
    except ValueError:
        return None


def field_of(value: Any, path: str) -> list[Any]:
    """What a value has at a path such as `user.id` or `items.0.sku`: one thing, or nothing."""
    for name in path.split("."):
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isdecimal() and int(name[:9]) < len(value):
            value = value[int(name)]
        else:
            return []
    return [value]


def same_as_text(value: Any, text: str) -> bool:
    """Whether a JSON value is what somebody typed: 7 and "7" both are `7`, and true is `true`."""
    return (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)) == text
