"""Avro: schemas whose values can be read without harm to the broker, and their values as Python's own types.

Schemas and values come from whoever may register and write them, and the library trusts both. A type within itself lets
a value nest until the process runs out of stack, and values that take no bytes may be endless in a few bytes. Schemas
with either are refused: what they describe is shown as bytes. The library is an extra, and loaded when it is needed.
"""

from __future__ import annotations

import io
import json
from typing import Any, NamedTuple

LONGEST_SCHEMA = 256 << 10
LONGEST_VALUE = 256 << 10
"""The library reads a value in one go, while nothing else runs."""

MOST_NESTED = 64
"""Levels of a schema, and so of its values."""


class Measure(NamedTuple):
    """How many levels a value has at most, and whether it takes a byte at least."""

    levels: int
    takes_bytes: bool


class RefusedError(Exception):
    """The schema could do harm."""


def parsed(text: str) -> Any | None:
    """The schema; None for one that is refused, refers to others, or is none. Raises ImportError."""
    import fastavro

    if len(text) > LONGEST_SCHEMA:
        return None
    try:
        raw = json.loads(text)
        _check_nesting(raw, 4 * MOST_NESTED)
        schema = fastavro.parse_schema(raw)
        levels = _measured(schema, {}).levels
    except Exception:  # noqa: BLE001  RefusedError, and whatever the library says of what is no schema
        return None
    return schema if levels <= MOST_NESTED else None


def value_of(schema: Any, content: bytes) -> Any:
    """The value of these bytes. Raises ValueError if they are too many, or not of the schema."""
    import fastavro

    if len(content) > LONGEST_VALUE:
        raise ValueError(f"{len(content)} bytes are too many")
    try:
        return fastavro.schemaless_reader(io.BytesIO(content), schema, None)
    except Exception as error:  # whatever the library says of bytes that are not of the schema
        raise ValueError(str(error)) from error


def _check_nesting(value: Any, left: int) -> None:
    """Raises RefusedError for JSON of more levels: the library's parser has no bound of its own."""
    if left == 0:
        raise RefusedError
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for each in inner:
        _check_nesting(each, left - 1)


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
        return Measure(1 + max((_measured(each, named).levels for each in schema), default=0), True)
    match schema["type"]:
        case "record" | "error":
            named[schema["name"]] = None
            levels = 1 + max((_levels_of_part(field["type"], named) for field in schema["fields"]), default=0)
            found = named[schema["name"]] = Measure(levels, bool(schema["fields"]))
        case "fixed" | "enum" as kind:
            found = named[schema["name"]] = Measure(1, kind == "enum" or schema["size"] > 0)
        case "array":
            found = Measure(1 + _levels_of_part(schema["items"], named), True)
        case "map":
            found = Measure(1 + _measured(schema["values"], named).levels, True)  # each key takes bytes
        case inner:
            found = _measured(inner, named)
    return found


def _levels_of_part(schema: Any, named: dict[str, Measure | None]) -> int:
    """Those of a field or an item. Raises RefusedError if it takes no bytes, of which there could be any number."""
    found = _measured(schema, named)
    if not found.takes_bytes:
        raise RefusedError
    return found.levels
