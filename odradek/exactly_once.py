"""Whether each record of one topic led to exactly one record of another."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Hashable, Iterable, Sequence

from odradek.control import WaitTimeoutError
from odradek.record import Record
from odradek.topic import Topic

MOST_NAMED = 5
WHOLE = ("key", "value")
PARTS = ("value.", "headers.")
WHAT_A_FIELD_IS = "expected key, value, value.FIELD (of a value that is JSON, or value.FIELD.PART), or headers.NAME"


def identity(field: str) -> Callable[[Record], Hashable]:
    """What makes records of two topics belong together: `key`, `value`, `value.order.id` or `headers.trace`.

    Raises ValueError for another field; the function does for a record without it.
    """
    if field in WHOLE:
        return lambda record: getattr(record, field)
    if not field.startswith(PARTS) or field.endswith("."):
        raise ValueError(f"key = {field!r}: {WHAT_A_FIELD_IS}")
    kind, _, rest = field.partition(".")
    if kind == "headers":
        return lambda record: record.headers.get(rest)
    return lambda record: _part(record, rest.split("."))


def _part(record: Record, names: Sequence[str]) -> Hashable:
    where = f"offset {record.offset} of {record.topic}-{record.partition}"
    try:
        part = record.json()
    except ValueError as error:
        raise ValueError(f"key = 'value.{'.'.join(names)}': the value at {where} is no JSON") from error
    for name in names:
        if not isinstance(part, dict) or name not in part:
            raise ValueError(f"key = 'value.{'.'.join(names)}': the value at {where} has no {name}")
        part = part[name]
    try:
        return part if isinstance(part, Hashable) else json.dumps(part, sort_keys=True)
    except RecursionError:
        raise ValueError(f"key = 'value.{'.'.join(names)}': the value at {where} is nested too deeply") from None


def violations(
    source: Iterable[Record], sink: Iterable[Record], identify: Callable[[Record], Hashable]
) -> tuple[list[str], bool]:
    """What is wrong, a sentence each, and whether records that come later may still mend all of it."""
    wanted = _by_identity(source, identify)
    made = _by_identity(sink, identify)
    missing = [f"{_shown(one)} is missing; in the source: {_places(wanted[one])}" for one in wanted if one not in made]
    foreign = [f"{_shown(one)} is not in the source: {_places(made[one])}" for one in made if one not in wanted]
    doubled: list[str] = []
    too_few: list[str] = []
    for one, records in made.items():
        count = len(wanted.get(one, records))
        if len(records) != count:
            several = doubled if len(records) > count else too_few
            several.append(f"{_shown(one)} is there {len(records)} times, not {count}: {_places(records)}")
    return [*missing, *too_few, *doubled, *foreign], not doubled and not foreign


def require(source: Topic, sink: Topic, identify: Callable[[Record], Hashable], timeout: float) -> None:
    """Raise WaitTimeoutError if the sink is not right within `timeout` seconds; for a function of the user's own."""
    deadline = time.monotonic() + timeout
    while True:
        made = sink.records()
        problems, may_mend = violations(source.records(), made, identify)
        if not problems:
            return
        left = deadline - time.monotonic()
        if not may_mend or left <= 0:
            raise WaitTimeoutError(summary(source.name, sink.name, problems))
        with contextlib.suppress(WaitTimeoutError):
            sink.wait(len(made) + 1, timeout=left)


def summary(source: str, sink: str, problems: Sequence[str]) -> str:
    """The text of a failure."""
    lines = [f"{sink} does not have each record of {source} exactly once:"]
    lines += [f"  {problem}" for problem in problems[:MOST_NAMED]]
    if len(problems) > MOST_NAMED:
        lines.append(f"  and {len(problems) - MOST_NAMED} more")
    return "\n".join(lines)


def _by_identity(records: Iterable[Record], identify: Callable[[Record], Hashable]) -> dict[Hashable, list[Record]]:
    found: dict[Hashable, list[Record]] = {}
    for record in records:
        found.setdefault(identify(record), []).append(record)
    return found


def _shown(identity: Hashable) -> str:
    if isinstance(identity, bytes):
        return identity.decode(errors="backslashreplace") or "the empty one"
    return "null" if identity is None else str(identity)


def _places(records: Sequence[Record]) -> str:
    places = [f"{one.topic}-{one.partition} at {one.offset}" for one in records[:MOST_NAMED]]
    return ", ".join(places) + (" ..." if len(records) > MOST_NAMED else "")
