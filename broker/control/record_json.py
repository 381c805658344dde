"""Records as JSON. Bytes that are UTF-8 are a text (`value`), others are base64 (`value_base64`); null is null."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, NamedTuple

from broker.control.endpoint import ControlError
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
