"""Avro: values as bytes and back, by `fastavro`, and which schemas it may be given.

Schemas and values come from whoever may register and write them, and the library trusts both. A type within itself
lets a value nest until the process runs out of stack, and values that take no bytes may be endless in a few bytes.
Schemas with either are refused.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from . import avro_values
from .codecs import LONGEST_VALUE, check_length
from .errors import SchemaError
from .framing import Framed
from .json_text import json_of
from .lookup import AVRO, Source

MOST_NESTED = 64
"""Levels of a schema, and so of its values."""

MOST_VALUES = 256 << 10
"""Objects that are made of one value of the usual length. Each byte of a list may be one object at each level."""

LONGEST_DECIMAL = 64
"""To write a number of so many bytes takes microseconds; of a hundred thousand, seconds."""

DECIMAL = "odradek-decimal"
"""Takes the place of `decimal` in schemas, so that the library asks us to read it."""


class Measure(NamedTuple):
    """How many levels a value has at most, whether it takes a byte at least, and whether there are lists in it."""

    levels: int
    takes_bytes: bool
    repeats: bool = False


class RefusedError(SchemaError):
    """The schema could do harm."""

    def __init__(self, why: str) -> None:
        super().__init__(f"Avro schemas {why} are not decoded: their values could take the process with them")


class AvroCodec:
    """`longest` is the longest value that is read."""

    kind = AVRO
    front = b""

    def __init__(self, source: Source, longest: int = LONGEST_VALUE) -> None:
        self._source = source
        names: dict[str, Any] = {}
        measured: dict[str, Measure | None] = {}
        for text in source.needed.values():
            _measured(_parsed(_safe(text), names), measured)
        self._schema = _parsed(_safe(source.text), names)
        levels, _, repeats = _measured(self._schema, measured)
        if levels > MOST_NESTED:
            raise RefusedError(f"of more than {MOST_NESTED} levels")
        self._schema = _whole(self._schema, names)
        most_values = MOST_VALUES * max(longest // LONGEST_VALUE, 1)
        self.longest = min(longest, most_values // levels) if repeats else longest
        self._to_write: tuple[Any, dict[str, Any]] | None = None

    def decode(self, framed: Framed) -> Any:
        import fastavro
        from fastavro.read import LOGICAL_READERS

        check_length(framed.payload, self.longest)
        for kind in ("bytes", "fixed"):
            LOGICAL_READERS.setdefault(f"{kind}-{DECIMAL}", partial(_decimal, LOGICAL_READERS[f"{kind}-decimal"]))
        content = io.BytesIO(framed.payload)
        try:
            value = fastavro.schemaless_reader(content, self._schema, None)
        except Exception as error:  # whatever the library says of bytes that are not of the schema
            raise SchemaError(f"the bytes are not of the schema: {str(error) or type(error).__name__}") from error
        if left := len(framed.payload) - content.tell():
            raise SchemaError(f"the bytes are not of the schema: {left} are left over")
        return value

    def encode(self, value: Any) -> bytes:
        import fastavro

        if self._to_write is None:
            names: dict[str, Any] = {}
            for text in self._source.needed.values():
                _parsed(_json(text), names)
            self._to_write = _whole(_parsed(_json(self._source.text), names), names), names
        schema, names = self._to_write
        out = io.BytesIO()
        try:
            fastavro.schemaless_writer(out, schema, avro_values.datum(schema, value, names), strict_allow_default=True)
        except SchemaError:
            raise
        except Exception as error:  # whatever the library says of a value that does not fit
            raise SchemaError(f"does not fit the schema: {str(error) or type(error).__name__}") from error
        return out.getvalue()


def make(source: Source, _message: str | None, longest: int) -> AvroCodec:
    return AvroCodec(source, longest)


def _json(text: str) -> Any:
    if text.strip() in avro_values.PRIMITIVE:
        return text.strip()
    try:
        return json_of(text)
    except ValueError as error:
        raise SchemaError(f"the schema is no JSON: {error}") from error


def _safe(text: str) -> Any:
    """The JSON of a schema for reading."""
    raw = _json(text)
    _prepare(raw, 4 * MOST_NESTED)
    return raw


def _prepare(value: Any, left: int) -> None:
    """Raises RefusedError for JSON of more levels: the library's parser has no bound of its own."""
    if left == 0:
        raise RefusedError(f"of more than {MOST_NESTED} levels")
    if isinstance(value, dict) and value.get("logicalType") == "decimal":
        value["logicalType"] = DECIMAL
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for each in inner:
        _prepare(each, left - 1)


def _parsed(raw: Any, names: dict[str, Any]) -> Any:
    """The schema as the library has it; named types are added to `names`. Raises ImportError, SchemaError."""
    import fastavro

    try:
        return fastavro.parse_schema(raw, names)
    except Exception as error:  # the library's, and Python's where it did not look
        raise SchemaError(f"no Avro schema: {str(error) or type(error).__name__}") from error


def _whole(schema: Any, names: Mapping[str, Any]) -> Any:
    """The schema with the types of other schemas, in the form in which the library takes these."""
    if isinstance(schema, list):
        return [_whole(branch, names) for branch in schema]
    if isinstance(schema, str):
        if schema not in names:
            return schema
        schema = names[schema]
    return {**schema, "__fastavro_parsed": True, "__named_schemas": dict(names)} if names else schema


def _decimal(read: Callable[..., Any], content: bytes, schema: Any, reader_schema: Any = None) -> Any:
    """A decimal as the library reads it, or what it is if it is too long."""
    if len(content) > LONGEST_DECIMAL:
        return f"a decimal of {len(content)} bytes"
    return read(content, schema, reader_schema)


def _measured(schema: Any, named: dict[str, Measure | None]) -> Measure:
    """Raises RefusedError. `named` has the named types so far, and None for those that this is a part of.

    The library has put each named type where it is met first, and its whole name where it is met again.
    """
    try:
        return _measure(schema, named)
    except (LookupError, TypeError, AttributeError) as error:  # the library does not look at everything
        raise SchemaError(f"no Avro schema: {error!r}") from error


def _measure(schema: Any, named: dict[str, Measure | None]) -> Measure:
    if isinstance(schema, str):
        found = named.get(schema, Measure(1, schema != "null"))
        if found is None:
            raise RefusedError(f"with a type within itself ({schema[:100]})")
        return found
    if isinstance(schema, list):  # a union, which writes the number of the branch
        return _around([_measure(each, named) for each in schema], takes_bytes=True)
    match schema["type"]:
        case "record" | "error":
            named[schema["name"]] = None
            parts = [_part(field["type"], named) for field in schema["fields"]]
            found = named[schema["name"]] = _around(parts, takes_bytes=bool(parts))
        case "fixed" | "enum" as kind:
            found = named[schema["name"]] = Measure(1, kind == "enum" or schema["size"] > 0)
        case "array":
            found = _around([_part(schema["items"], named)], takes_bytes=True)._replace(repeats=True)
        case "map":  # each key takes bytes
            found = _around([_measure(schema["values"], named)], takes_bytes=True)._replace(repeats=True)
        case inner:
            found = _measure(inner, named)
    return found


def _around(parts: Sequence[Measure], *, takes_bytes: bool) -> Measure:
    """That of a value with these in it."""
    return Measure(1 + max((one.levels for one in parts), default=0), takes_bytes, any(one.repeats for one in parts))


def _part(schema: Any, named: dict[str, Measure | None]) -> Measure:
    """That of a field or an item. Raises RefusedError if it takes no bytes, of which there could be any number."""
    found = _measure(schema, named)
    if not found.takes_bytes:
        raise RefusedError("with items or fields that take no bytes")
    return found
