"""How values are written for people: the templates' filters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

LATEST_MS = 253_402_300_799_000
"""The end of the year 9999, beyond which no date can be shown."""

SHORT = 300
"""Characters of a name in a list."""

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
}
