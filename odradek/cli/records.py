"""Records as text: what `consume` prints and `produce` takes, and how many there were."""

from __future__ import annotations

import base64
import binascii
import json
import re
import sys
import time
from collections.abc import Callable
from typing import Any, Protocol

import click
from confluent_kafka import Message

from odradek.cli.general import LARGEST

ENCODINGS: dict[str, tuple[Callable[[bytes], str], Callable[[str], bytes]]] = {
    "text": (
        lambda data: data.decode("utf-8", "backslashreplace"),
        lambda text: text.encode("utf-8", "surrogateescape"),
    ),
    "hex": (bytes.hex, bytes.fromhex),
    "base64": (lambda data: base64.b64encode(data).decode(), lambda text: base64.b64decode(text, validate=True)),
}
"""How bytes are written as text and read from it."""
Encoder = Callable[[Any, str], bytes]
"""Makes the bytes of a value of JSON, which the text names in errors. Raises ClickException."""

FIELDS = "%t %p %o %T %k %v %h %K %S"
ESCAPES = {"\\n": "\n", "\\t": "\t", "\\\\": "\\"}


def decoded(text: str, encoding: str, what: str) -> bytes:
    """The bytes of a text. Raises ClickException that names what it is."""
    try:
        return ENCODINGS[encoding][1](text)
    except (ValueError, binascii.Error) as error:
        raise click.ClickException(f"{what} {text!r} is no {encoding}: {error}") from error


class Decoded(Protocol):
    """A key or value that was read by its schema (`values.Read`)."""

    @property
    def value(self) -> Any:
        """As JSON has it."""

    @property
    def schema(self) -> int | str | None:
        """The id or GUID of its schema, if the record names one."""


Reader = Callable[[Message], Decoded | None]
"""Reads a key or value; None: it is null, or its bytes are to be shown as they are."""


def as_json(message: Message, key: Reader | None = None, value: Reader | None = None) -> dict[str, Any]:
    """A record as an object; what is no UTF-8 is an object with `base64`."""
    kind, timestamp = message.timestamp()
    found = {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": timestamp if kind else None,
        "key": _json_of(message.key()),
        "value": _json_of(message.value()),
        "headers": [[name, _json_of(content)] for name, content in _headers(message)],
    }
    for side, read in (("key", key), ("value", value)):
        part = None if read is None else read(message)
        if part is not None:
            found[side] = part.value
            if part.schema is not None:
                found[f"{side}_schema"] = part.schema
    return found


def _headers(message: Message) -> list[tuple[str, Any]]:
    found: Any = message.headers()
    return list(found or ())


def _line(value: Any) -> str:
    """JSON on a line, with the letters of all scripts; those that are half a character are escapes."""
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value)
    return text


def _json_of(data: Any) -> Any:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def as_bytes(value: Any, what: str) -> bytes:
    """The bytes of a key or value in JSON: a text, an object with `base64`, or JSON itself. Raises ClickException."""
    if isinstance(value, str):
        return decoded(value, "text", what)
    if isinstance(value, dict) and isinstance(value.get("base64"), str) and len(value) == 1:
        return decoded(value["base64"], "base64", what)
    return json.dumps(value).encode()


def from_json(line: str, number: int, key: Encoder = as_bytes, value: Encoder = as_bytes) -> dict[str, Any]:
    """Read a line of `consume --json`, for a producer. Raises ClickException that names the line and field.

    `key` and `value` make the bytes of what is not null.
    """
    where = f"line {number}"
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise click.ClickException(f"{where} is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise click.ClickException(f'{where}: expected an object such as {{"key": "k", "value": "v"}}')
    record: dict[str, Any] = {
        name: _bytes_of(found.get(name), f"{where}: {name}", encode)
        for name, encode in (("key", key), ("value", value))
    }
    headers = found.get("headers") or []
    if isinstance(headers, dict):
        headers = list(headers.items())
    if not isinstance(headers, list) or not all(
        isinstance(header, list | tuple) and len(header) == 2 for header in headers
    ):
        raise click.ClickException(f"{where}: headers: expected an object, or a list of [NAME, VALUE]")
    record["headers"] = [(str(name), _bytes_of(content, f"{where}: header {name}")) for name, content in headers]
    timestamp = found.get("timestamp")
    if timestamp is not None:
        # librdkafka writes the present time in place of 0.
        if not isinstance(timestamp, int) or isinstance(timestamp, bool) or not 0 < timestamp <= LARGEST:
            raise click.ClickException(
                f"{where}: timestamp = {timestamp!r}: expected milliseconds since 1970, from 1 to {LARGEST}"
            )
        record["timestamp"] = timestamp
    return record


def _bytes_of(value: Any, what: str, encode: Encoder = as_bytes) -> bytes | None:
    return None if value is None else encode(value, what)


def formatter(
    form: str,
    errors: str = "backslashreplace",
    null: str = "",
    key: Reader | None = None,
    value: Reader | None = None,
) -> Callable[[Message], str]:
    """Return the writer of records in a form: `text`, `json`, `hex`, `base64`, or a template such as "%p %o %v\\n".

    `errors` is how bytes that are no UTF-8 become text, `null` what a template has for a key, value or header without.
    What `key` and `value` read is written as JSON.
    """
    if form == "json":
        return lambda message: f"{_line(as_json(message, key, value))}\n"
    if form == "text":
        form = "%v\\n"
    if form in ENCODINGS:
        if key or value:
            raise click.UsageError(f"--format {form}: keys and values with schemas are JSON: expected text or json")
        return _template("%v\\n", ENCODINGS[form][0], null)
    if "%" not in form:
        raise click.BadParameter(
            f"{form!r}: expected text, json, hex, base64, or a template with {FIELDS}",
            param_hint="--format",
        )
    unknown = re.search(r"%(?![tpoTkvshKS]).?", form.replace("%%", ""))
    if unknown:
        raise click.BadParameter(
            f"{form!r}: expected {FIELDS}, or %% for a percent sign, not {unknown[0]}",
            param_hint="--format",
        )
    return _template(form, lambda data: data.decode("utf-8", errors), null, key, value)


def _template(
    template: str,
    text: Callable[[bytes], str],
    null: str,
    read_key: Reader | None = None,
    read_value: Reader | None = None,
) -> Callable[[Message], str]:
    def field(data: Any) -> str:
        return null if data is None else text(data)

    def key(message: Message) -> str:
        part = None if read_key is None else read_key(message)
        return field(message.key()) if part is None else _line(part.value)

    def value(message: Message) -> str:
        part = None if read_value is None else read_value(message)
        return field(message.value()) if part is None else _line(part.value)

    def size(data: Any) -> str:
        return str(-1 if data is None else len(data))

    fields: dict[str, Callable[[Message], str]] = {
        "%t": lambda message: str(message.topic()),
        "%p": lambda message: str(message.partition()),
        "%o": lambda message: str(message.offset()),
        "%T": lambda message: str(message.timestamp()[1]),
        "%k": key,
        "%v": value,
        "%s": value,
        "%K": lambda message: size(message.key()),
        "%S": lambda message: size(message.value()),
        "%h": lambda message: ",".join(f"{name}={field(content)}" for name, content in _headers(message)),
        "%%": lambda message: "%",
    }
    pieces = re.split(r"(%[tpoTkvshKS%]|\\[nt\\])", template)
    return lambda message: "".join(
        fields[piece](message) if piece in fields else ESCAPES.get(piece, piece) for piece in pieces
    )


EVERY_S = 0.5


class RecordCounter:
    """Counts records and bytes; prints them twice a second if standard error is a terminal."""

    def __init__(self, verb: str) -> None:
        self.records = 0
        self.bytes = 0
        self._verb = verb
        self._began = self._printed = time.monotonic()
        self._terminal = sys.__stderr__ if sys.stderr.isatty() else None

    def add(self, size: int) -> None:
        """Count a record."""
        self.records += 1
        self.bytes += size
        if self._terminal is not None and time.monotonic() - self._printed >= EVERY_S:
            self._printed = time.monotonic()
            self._terminal.write(f"\r{self}\x1b[K")
            self._terminal.flush()

    def end(self) -> None:
        """Print the last line."""
        if self._terminal is not None:
            self._terminal.write(f"\r{self}\x1b[K\n")

    @property
    def seconds(self) -> float:
        """How long it has taken."""
        return max(1e-9, time.monotonic() - self._began)

    def __str__(self) -> str:
        rate = self.records / self.seconds
        return f"{self._verb} {self.records} records, {self.bytes / 1e6:.1f} MB, {rate:.0f} records/s"
