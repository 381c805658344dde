"""Records as JSON, and whether a record is the expected one, and if not, in what it differs. Pure functions.

Bytes that are UTF-8 are a text (`value`), others are base64 (`value_base64`); null is null.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from broker.http.bodies import json_of
from broker.testkit.control.endpoint import ControlError, Kind, Parameter, Values
from protocol.records.build import Headers, Record
from protocol.records.cut import NOTHING, LeftOut


class Produced(NamedTuple):
    """A record to be written; None as partition: the key decides, None as timestamp: now (ms)."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    partition: int | None
    timestamp: int | None


FIELDS = frozenset({"key", "key_base64", "value", "value_base64", "headers", "partition", "timestamp"})
WHAT_A_RECORD_IS = "an object with value, key, headers, partition and timestamp, or value_base64 and key_base64"


def as_json(topic: str, partition: int, record: Record, left_out: LeftOut = NOTHING) -> dict[str, Any]:
    """A record as an endpoint answers it; `left_out` says of what there is more than an answer may have."""
    return {
        "topic": topic,
        "partition": partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        **bytes_as_json("key", record.key),
        **bytes_as_json("value", record.value),
        "headers": [
            {"key": name.decode(errors="replace"), **bytes_as_json("value", content)}
            for name, content in record.headers
        ],
        **({"left_out": left_out._asdict()} if any(left_out) else {}),
    }


def bytes_as_json(name: str, content: bytes | None) -> dict[str, str | None]:
    """`{name: text}`, or `{name_base64: text}` for what is no UTF-8."""
    if content is None:
        return {name: None}
    try:
        return {name: content.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(content).decode()}


def bytes_of(given: Mapping[str, Any], name: str, where: str = "") -> bytes | None:
    """The bytes that `given` has under `name` or `name_base64`; None if neither is there. Raises ControlError."""
    text, encoded = given.get(name), given.get(f"{name}_base64")
    if text is not None and encoded is not None:
        raise ControlError(f"{where}{name} and {name}_base64 are both given: expected one of them", parameter=name)
    if encoded is not None:
        name = f"{name}_base64"
        try:
            return base64.b64decode(encoded, validate=True)
        except (TypeError, ValueError, binascii.Error):
            raise ControlError(f"{where}{name} = {encoded!r}: expected base64", parameter=name) from None
    if text is None:
        return None
    if not isinstance(text, str):
        raise ControlError(f"{where}{name} = {text!r}: expected a text, or {name}_base64", parameter=name)
    return _utf8(text, name, where)


def produced_record(given: object, at: int) -> Produced:
    """The record that a client wants to have written; `at` is its place in the list. Raises ControlError."""
    where = f"records[{at}]: "
    if not isinstance(given, dict):
        raise ControlError(f"{where}{given!r}: expected {WHAT_A_RECORD_IS}", parameter="records")
    for name in given:
        if name not in FIELDS:
            raise ControlError(f"{where}{name} is no field of a record: expected {WHAT_A_RECORD_IS}", parameter=name)
    return Produced(
        bytes_of(given, "key", where),
        bytes_of(given, "value", where),
        headers_of(given.get("headers"), where),
        _integer(given, "partition", where, 2**31 - 1),
        _integer(given, "timestamp", where, 2**63 - 1),
    )


def headers_of(given: object, where: str = "") -> Headers:
    """Headers, of an object of texts (`{"value_base64": ...}` for bytes), or of a list with a `key` in each.

    Raises ControlError.
    """
    if given is None:
        return ()
    if isinstance(given, dict):
        given = [
            {**value, "key": name} if isinstance(value, dict) else {"key": name, "value": value}
            for name, value in given.items()
        ]
    if not isinstance(given, list) or not all(
        isinstance(header, dict) and isinstance(header.get("key"), str) for header in given
    ):
        raise ControlError(
            f'{where}headers = {given!r}: expected an object of texts, or a list of {{"key": ..., "value": ...}} '
            "(value_base64 for bytes)",
            parameter="headers",
        )
    where = f"{where}headers: "
    return tuple((_utf8(header["key"], "key", where), bytes_of(header, "value", where)) for header in given)


def _utf8(text: str, name: str, where: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ControlError(f"{where}{name} = {text!r}: expected Unicode text", parameter=name) from None


def _integer(given: Mapping[str, Any], name: str, where: str, most: int) -> int | None:
    value = given.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise ControlError(f"{where}{name} = {value!r}: expected a whole number from 0 on", parameter=name)
    return value


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
