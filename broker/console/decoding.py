"""Bytes of keys and values as people read them, and the fields of JSON. Pure functions."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from broker.http.bodies import json_of
from broker.testkit.control.topic_reader import JSON_WORK, Budget, SpentError

FORMATS = ("auto", "text", "json", "hex")
LONGEST = 256 << 10
"""More bytes than these of one value are never shown, or looked through."""

LONGEST_HEX = 64 << 10
LONGEST_JSON = 1 << 20
"""Characters: JSON that is indented takes many more of them than it had."""

ON_A_LINE = 16


class Shown(NamedTuple):
    """`text` is None for null; `kind` says what it was taken for, and `cut` how many bytes are left out.

    `cut` is None for a text that was cut while it was written: nobody knows how long it would be.
    """

    text: str | None
    kind: str
    cut: int | None = 0


def decoded(
    content: bytes | None,
    budget: Budget,
    form: str = "auto",
    most: int = LONGEST,
    *,
    more: int = 0,
    indented: bool = False,
) -> Shown:
    """The first `most` bytes at least, of which `more` were not even read.

    JSON that is shown whole is written as JSON, over several lines if `indented`, if the budget is enough for that.
    """
    if content is None:
        return Shown(None, "null")
    whole = len(content) + more
    if form == "hex":
        return _hex(content[:most], whole)
    part, cut = content[:most], max(whole - most, 0)
    if form in ("auto", "json") and (indented or form == "json") and not cut:
        text = _json_text(content, budget, indented=indented)
        if text is not None:
            return Shown(text, "JSON")
    try:
        text = part.decode("utf-8", "replace" if form == "text" else "strict")
    except UnicodeDecodeError as error:
        if not cut or error.start < len(part) - 3:  # a character may be cut in two
            return _hex(part, whole)
        text = part[: error.start].decode()
    if form == "auto" and any(ord(character) < 32 and character not in "\n\r\t" for character in text):
        return _hex(part, whole)
    return Shown(text, "text", cut)


def _json_text(content: bytes, budget: Budget, *, indented: bool) -> str | None:
    """None for what is no JSON, or is too large as such: then it is shown as it is."""
    try:
        budget.spend(JSON_WORK * len(content))
        found = as_json(content)
        if found is None:
            return None
        text, is_whole = budget.json(found, LONGEST_JSON, indent=2 if indented else None)
    except SpentError:
        return None
    return text if is_whole else None


def _hex(content: bytes, whole: int) -> Shown:
    """Lines of an offset, sixteen bytes, and what they are as ASCII."""
    lines, content = [], content[:LONGEST_HEX]
    for at in range(0, len(content), ON_A_LINE):
        line = content[at : at + ON_A_LINE]
        readable = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in line)
        lines.append(f"{at:08x}  {line.hex(' '):47}  {readable}")
    return Shown("\n".join(lines), "hex", whole - len(content))


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
