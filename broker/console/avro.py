"""Avro: schemas whose values can be read without harm to the broker, and their values as Python's own types.

Schemas and values come from whoever may register and write them, and the library trusts both. A type within itself lets
a value nest until the process runs out of stack, and values that take no bytes may be endless in a few bytes. Schemas
with either are refused: what they describe is shown as bytes. The library is an extra, and loaded when it is needed.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

LONGEST_SCHEMA = 256 << 10
LONGEST_VALUE = 256 << 10
"""The library reads a value in one go, while nothing else runs."""

MOST_NESTED = 64
"""Levels of a schema, and so of its values."""

MOST_VALUES = 256 << 10
"""Objects that are made of one value. Each byte of a list may be one object at each level."""

LONGEST_DECIMAL = 64
"""To write a number of so many bytes takes microseconds; of a hundred thousand, seconds."""

DECIMAL = "odradek-decimal"
"""Takes the place of `decimal` in schemas, so that the library asks us to read it."""


class Measure(NamedTuple):
    """How many levels a value has at most, whether it takes a byte at least, and whether there are lists in it."""

    levels: int
    takes_bytes: bool
    repeats: bool = False


class Parsed(NamedTuple):
    """A schema as the library has it, and the longest value that is read by it."""

    schema: Any
    longest: int


class RefusedError(Exception):
    """The schema could do harm."""


def parsed(text: str) -> Parsed | None:
    """The schema; None for one that is refused, refers to others, or is none. Raises ImportError."""
    import fastavro

    if len(text) > LONGEST_SCHEMA:
        return None
    try:
        raw = json.loads(text)
        _prepare(raw, 4 * MOST_NESTED)
        schema = fastavro.parse_schema(raw)
        levels, _, repeats = _measured(schema, {})
    except Exception:  # noqa: BLE001  RefusedError, and whatever the library says of what is no schema
        return None
    if levels > MOST_NESTED:
        return None
    return Parsed(schema, min(LONGEST_VALUE, MOST_VALUES // levels) if repeats else LONGEST_VALUE)


def value_of(by: Parsed, content: bytes) -> Any:
    """The value of these bytes. Raises ValueError if they are too many, or not of the schema."""
    import fastavro
    from fastavro.read import LOGICAL_READERS

    if len(content) > by.longest:
        raise ValueError(f"{len(content)} bytes are too many")
    for kind in ("bytes", "fixed"):
        LOGICAL_READERS.setdefault(f"{kind}-{DECIMAL}", partial(_decimal, LOGICAL_READERS[f"{kind}-decimal"]))
    try:
        return fastavro.schemaless_reader(io.BytesIO(content), by.schema, None)
    except Exception as error:  # whatever the library says of bytes that are not of the schema
        raise ValueError(str(error)) from error


def _decimal(read: Callable[..., Any], content: bytes, schema: Any, reader_schema: Any = None) -> Any:
    """A decimal as the library reads it, or what it is if it is too long."""
    if len(content) > LONGEST_DECIMAL:
        return f"a decimal of {len(content)} bytes"
    return read(content, schema, reader_schema)


def _prepare(value: Any, left: int) -> None:
    """Raises RefusedError for JSON of more levels: the library's parser has no bound of its own."""
    if left == 0:
        raise RefusedError
    if isinstance(value, dict) and value.get("logicalType") == "decimal":
        value["logicalType"] = DECIMAL
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for each in inner:
        _prepare(each, left - 1)


def _measured(schema: Any, named: dict[str, Measure | None]) -> Measure:
    """Raises RefusedError. `named` has the named types so far, and None for those that this is a part of.

    The library has put each named type where it is met first, and its whole name where it is met again.
    """
    if isinstance(schema, str):
        found = named.get(schema, Measure(1, schema != "null"))
        if found is None:
            raise RefusedError
        return found
    if isinstance(schema, list):  # a union, which writes the number of the branch
        return _around([_measured(each, named) for each in schema], takes_bytes=True)
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
            found = _around([_measured(schema["values"], named)], takes_bytes=True)._replace(repeats=True)
        case inner:
            found = _measured(inner, named)
    return found


def _around(parts: Sequence[Measure], *, takes_bytes: bool) -> Measure:
    """That of a value with these in it."""
    return Measure(1 + max((one.levels for one in parts), default=0), takes_bytes, any(one.repeats for one in parts))


def _part(schema: Any, named: dict[str, Measure | None]) -> Measure:
    """That of a field or an item. Raises RefusedError if it takes no bytes, of which there could be any number."""
    found = _measured(schema, named)
    if not found.takes_bytes:
        raise RefusedError
    return found
