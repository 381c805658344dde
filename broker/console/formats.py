"""How values are written for people: the templates' filters, and the bytes of keys and values."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import urlencode

from markupsafe import Markup, escape

from broker.testkit.control.budget import JSON_WORK, Budget, SpentError
from odradek.schemas.json_text import json_of

LATEST_MS = 253_402_300_799_000
"""The end of the year 9999, beyond which no date can be shown."""

SHORT = 300
"""Characters of a name in a list."""

UNSEEN = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b\u200e\u200f"
    r"\u2028-\u202e\u2060-\u206f\u3164\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]|(?<![^\x00-\x7f])[\u200c\u200d]"
)
"""Control characters, those that turn the direction of writing, and those without a width. Joiners are left where they
join: in Persian words, and in emoji.
"""

UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def count(number: float | None) -> str:
    """`1,234`; `0.3` below ten if it is no whole number."""
    if number is None:
        return "–"
    return f"{number:,.1f}" if 0 < number < 10 and number != int(number) else f"{number:,.0f}"


def size(number: float | None) -> str:
    """`1.2 MB`."""
    if number is None:
        return "–"
    unit = 0
    while number >= 999.5 and unit < len(UNITS) - 1:
        number, unit = number / 1000, unit + 1
    return f"{number:.0f} {UNITS[unit]}" if unit == 0 or number >= 99.5 else f"{number:.1f} {UNITS[unit]}"


def duration(ms: float | None) -> str:
    """`850 ms`, `4.2 s`, `3 min`, `5 h`, `2 d`."""
    if ms is None:
        return "–"
    if ms < 1000:
        return f"{ms:.1f} ms" if 0 < ms < 10 else f"{ms:.0f} ms"
    for limit_s, per_s, unit, digits in ((60, 1, "s", 1), (5400, 60, "min", 0), (129_600, 3600, "h", 0)):
        if ms / 1000 < limit_s:
            return f"{ms / 1000 / per_s:.{digits}f} {unit}"
    return f"{ms / 86_400_000:.0f} d"


def time(ms: float | None) -> str:
    """A wall time in UTC; the number itself if it is none."""
    if ms is None or ms < 0:
        return "–"
    if ms > LATEST_MS:
        return f"{ms:.0f}"
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def link(page: str, /, **given: Any) -> str:
    """The address of a page with these parameters; None leaves one out."""
    query = urlencode({name: str(value) for name, value in given.items() if value is not None})
    return f"{page}?{query}" if query else page


def visible(value: Any) -> Any:
    """A text whose characters can all be seen, and stand where they are: of what templates show, all of it.

    Others could have a group look like another one, or have a line read as it is not.
    """
    if isinstance(value, Markup) or not isinstance(value, str) or (value.isascii() and value.isprintable()):
        return value
    return UNSEEN.sub(_escaped, value)


def _escaped(found: re.Match[str]) -> str:
    number = ord(found[0])
    return f"\\u{number:04x}" if number < 1 << 16 else f"\\U{number:08x}"


def exact(text: object) -> Markup:
    """A text with all its characters, for a field of a form: it comes back as it is."""
    return escape(text)


def named(flag: bool) -> str:
    return "yes" if flag else "no"


def shown(text: str) -> str:
    """A text; "" for an empty one, which nobody would see."""
    return text or '""'


def short(text: str) -> str:
    """`shown`, but only the beginning of a name that a client chose, which may have 32,767 characters."""
    return shown(text) if len(text) <= SHORT else f"{text[:SHORT]}…"


FILTERS: Mapping[str, Callable[..., str]] = {
    "count": count,
    "size": size,
    "duration": duration,
    "time": time,
    "link": link,
    "named": named,
    "shown": shown,
    "short": short,
    "exact": exact,
}


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
        elif isinstance(value, list) and name.isdecimal() and len(name) < 10 and int(name) < len(value):
            value = value[int(name)]
        else:
            return []
    return [value]


def same_as_text(value: Any, text: str) -> bool:
    """Whether a JSON value is what somebody typed: 7 and "7" both are `7`, and true is `true`."""
    return (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)) == text
