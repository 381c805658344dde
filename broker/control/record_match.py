"""Whether a record is the expected one, and if not, in what it differs. Pure functions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from broker.control.endpoint import ControlError, Kind, Parameter, Values
from broker.control.record_json import bytes_of, headers_of
from broker.http.bodies import json_of
from protocol.records.build import Headers, Record

LONGEST_SHOWN = 200


class Difference(NamedTuple):
    """A field of a record that is not as expected; both as text. It stands for so many `fields` of JSON."""

    field: str
    expected: str
    actual: str
    fields: int = 1


PARAMETERS = (
    Parameter("key", Kind.STRING, "the key, as text"),
    Parameter("key_base64", Kind.STRING, "the key, as base64"),
    Parameter("value", Kind.STRING, "the value, as text"),
    Parameter("value_base64", Kind.STRING, "the value, as base64"),
    Parameter("json", Kind.OBJECT, "what the value, which is JSON, has at least: more fields may be there"),
    Parameter("tombstone", Kind.BOOLEAN, "true: the value is null"),
    Parameter("headers", Kind.OBJECT, "headers that are there, name to text: more may be there"),
)


@dataclass(frozen=True, slots=True)
class Expected:
    """What a record has to be; None for what may be anything."""

    key: bytes | None = None
    value: bytes | None = None
    json: dict[str, Any] | None = None
    tombstone: bool = False
    headers: Headers = ()

    @classmethod
    def of(cls, values: Values) -> Expected:
        """What a request with `PARAMETERS` expects. Raises ControlError if they exclude each other."""
        value = bytes_of(values, "value")
        wanted = cls(
            bytes_of(values, "key"),
            value,
            values.get("json"),
            values.get("tombstone", False),
            headers_of(values.get("headers")),
        )
        if (value is not None) + (wanted.json is not None) + wanted.tombstone > 1:
            raise ControlError("value, json and tombstone exclude each other: expected one of them", parameter="value")
        return wanted

    @property
    def is_anything(self) -> bool:
        return self == Expected()

    def differences(self, record: Record) -> list[Difference]:
        """The differences; none if the record matches."""
        return list(self._differences(record))

    def _differences(self, record: Record) -> Iterator[Difference]:
        if self.key is not None and record.key != self.key:
            yield Difference("key", shown(self.key), shown(record.key))
        if self.value is not None and record.value != self.value:
            yield Difference("value", shown(self.value), shown(record.value))
        if self.tombstone and record.value is not None:
            yield Difference("value", shown(None), shown(record.value))
        if self.json is not None:
            yield from _json_differences(self.json, record.value)
        actual = dict(record.headers)
        for name, content in self.headers:
            field = f"headers.{name.decode()}"
            if name not in actual:
                yield Difference(field, shown(content), "nothing")
            elif (name, content) not in record.headers:
                yield Difference(field, shown(content), shown(actual[name]))

    def __str__(self) -> str:
        parts = [] if self.key is None else [f"key {shown(self.key)}"]
        if self.value is not None:
            parts.append(f"value {shown(self.value)}")
        if self.json is not None:
            parts.append(f"value {_as_text(self.json)}")
        if self.tombstone:
            parts.append("value null")
        parts += [f"header {name.decode()} {shown(content)}" for name, content in self.headers]
        return " and ".join(parts) or "any record"


def _json_differences(expected: Any, value: bytes | None) -> Iterator[Difference]:
    try:
        actual = json_of(value or b"")
    except json.JSONDecodeError:
        yield Difference("value", _as_text(expected), f"{shown(value)}, which is no JSON", 1 + _leaves(expected))
    except ValueError as error:  # no UTF-8, a number of too many digits, too many levels
        why = f"{shown(value)}, which is no JSON that can be compared: {error}"
        yield Difference("value", _as_text(expected), why, 1 + _leaves(expected))
    else:
        yield from subset_differences("value", expected, actual)


def subset_differences(field: str, expected: Any, actual: Any) -> Iterator[Difference]:
    """Where `actual` lacks what `expected` has. Objects may have more fields; lists have the same length."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        for name, part in expected.items():
            if name in actual:
                yield from subset_differences(f"{field}.{name}", part, actual[name])
            else:
                yield Difference(f"{field}.{name}", _as_text(part), "nothing", _leaves(part))
    elif isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        for at, (part, actual_part) in enumerate(zip(expected, actual, strict=True)):
            yield from subset_differences(f"{field}[{at}]", part, actual_part)
    elif isinstance(expected, bool) is not isinstance(actual, bool) or expected != actual:
        yield Difference(field, _as_text(expected), _as_text(actual), _leaves(expected))


def _leaves(expected: Any) -> int:
    """How many values a JSON value has."""
    if isinstance(expected, dict):
        return sum(map(_leaves, expected.values()))
    return sum(map(_leaves, expected)) if isinstance(expected, list) else 1


def distance(differences: Iterable[Difference]) -> int:
    """How far a record is from the expected one."""
    return sum(difference.fields for difference in differences)


def shown(content: bytes | None) -> str:
    """Bytes as a text to read."""
    if content is None:
        return "null"
    try:
        text = json.dumps(content.decode(), ensure_ascii=False)
    except UnicodeDecodeError:
        text = repr(content)
    return _cut(text)


def _as_text(value: Any) -> str:
    """As JSON; half of a surrogate pair, which is no text, stays the escape that it was."""
    return _cut(json.dumps(value, ensure_ascii=False).encode(errors="backslashreplace").decode())


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}... ({len(text)} characters)"
