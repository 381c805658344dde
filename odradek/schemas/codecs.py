"""Values of each kind of schema: as Python values, and as JSON has them.

| kind     | Python value                                   | as JSON (`plain`)                          |
| -------- | ---------------------------------------------- | ------------------------------------------ |
| Avro     | as fastavro has it: dict, Decimal, datetime... | decimals and dates: texts; bytes: see below |
| JSON     | the JSON                                       | the same                                   |
| Protobuf | fields by name; Google's types as in JSON      | 64-bit numbers stay numbers; bytes: base64 |

Bytes of Avro are a text with a character for each byte, as in Avro's own encoding in JSON.
What is encoded may be in either form.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from importlib import import_module
from typing import Any, Protocol, cast

from .errors import MissingLibraryError, SchemaError
from .framing import Framed
from .lookup import AVRO, JSON, PROTOBUF, Source

LONGEST_SCHEMA = 256 << 10
LONGEST_VALUE = 256 << 10
"""A value is read in one go."""


class Codec(Protocol):
    """A schema that was parsed."""

    @property
    def kind(self) -> str:
        """AVRO, JSON or PROTOBUF."""

    @property
    def front(self) -> bytes:
        """What is between an id and the content: of Protobuf the indexes of the message. Raises SchemaError."""

    def decode(self, framed: Framed) -> Any:
        """The value. Raises SchemaError if the bytes are too many, or not of the schema."""

    def encode(self, value: Any) -> bytes:
        """The payload; of Protobuf with the message's indexes before it. Raises SchemaError if it is no such value."""


NAMES = {AVRO: "Avro", JSON: "JSON", PROTOBUF: "Protobuf"}
_MODULES = {AVRO: "avro", JSON: "json_schema", PROTOBUF: "protobuf"}


def codec_of(source: Source, message: str | None = None, longest: int = LONGEST_VALUE) -> Codec:
    """Parse a schema; `message` is the name of the message that values are, of any if None (the first to encode).

    `longest` is the longest value that is read. Raises SchemaError.
    """
    if source.kind not in _MODULES:
        raise SchemaError(f"{source.kind}: expected a schema of type {', '.join(_MODULES)}")
    if len(source.text) + sum(map(len, source.needed.values())) > LONGEST_SCHEMA:
        raise SchemaError("the schema is too large to be used here")
    if message is not None and source.kind != PROTOBUF:
        raise SchemaError(f"message = {message!r}: only Protobuf has messages")
    make = cast(Callable[..., Codec], import_module(f".{_MODULES[source.kind]}", __package__).make)
    try:
        return make(source, message, longest)
    except ImportError as error:
        raise MissingLibraryError(NAMES[source.kind]) from error
    except RecursionError as error:
        raise SchemaError("the schema has too many levels") from error


def check_length(content: bytes, most: int) -> None:
    """Raises SchemaError."""
    if len(content) > most:
        raise SchemaError(f"{len(content)} bytes are too many to be decoded")


def scalar(value: Any) -> Any:
    """What JSON has for a value that it does not know: `default` of `json.dumps`."""
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("latin-1")
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, set | frozenset) else str(value)


def plain(value: Any) -> Any:
    """The value as JSON has it."""
    return json.loads(json.dumps(value, default=scalar))
