"""Values that a schema registry knows: Avro, and JSON with a schema, as Confluent's serializers write them.

Such a value begins with a zero byte and the id of its schema, four bytes. A schema never changes, so it is asked for
once. Schemas that refer to others are not followed: their values are shown as bytes, as are those that could do harm.

Schemas of Avro and their values come from whoever may register and write them, and the library trusts both. A type
within itself lets a value nest until the process runs out of stack, and values that take no bytes may be endless in a
few bytes. Schemas with either are refused. The library is an extra, and loaded when it is needed.
"""

from __future__ import annotations

import asyncio
import io
import json
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import aiohttp

from broker.console.formats import LONGEST_JSON, Shown
from broker.http.bodies import json_of
from broker.testkit.control.topic_reader import JSON_WORK, Budget, SpentError

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


def parsed_avro(text: str) -> Parsed | None:
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


def avro_value(by: Parsed, content: bytes) -> Any:
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


MAGIC = 0
ID_BYTES = 5
MOST_SCHEMAS = 1000
MOST_ASKED = 20
"""Schemas that are asked for while one page is made."""

LONGEST_ANSWER = 1 << 20
"""A schema that takes more bytes is not decoded."""

NOT_COMPRESSED = {"Accept-Encoding": "identity"}
"""So that an answer is no longer than the bytes that are read of it."""

ALL_S = 6.0
"""For all schemas of a page."""

TIMEOUT = aiohttp.ClientTimeout(total=3)


class RegistryError(Exception):
    """The registry cannot be asked, or Avro cannot be read; the text is for the page."""


@dataclass(frozen=True, slots=True)
class Schema:
    """`avro` is the parsed schema; None for JSON."""

    schema_id: int
    avro: Parsed | None

    def shown(self, content: bytes, most: int, budget: Budget, *, indented: bool) -> Shown | None:
        """The first `most` characters of the value as JSON; None if the bytes are not of this schema. Any thread."""
        kind = "JSON" if self.avro is None else "Avro"
        try:
            budget.spend(JSON_WORK * len(content))
            raw = content[ID_BYTES:]
            value = json_of(raw) if self.avro is None else avro_value(self.avro, raw)
            text, is_whole = budget.json(value, LONGEST_JSON if indented else most, indent=2 if indented else None)
        except (ValueError, SpentError):
            return None
        return Shown(text, f"{kind}, schema {self.schema_id}", 0 if is_whole else None)


Schemas = Mapping[int, Schema]


def schema_id_of(content: bytes | None) -> int | None:
    """The id at the front of a value, if it has one."""
    if content is None or len(content) < ID_BYTES or content[0] != MAGIC:
        return None
    return int.from_bytes(content[1:ID_BYTES], "big")


class Registry:
    """Asks a registry at `url`, which may have a name and a password in it."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._known: OrderedDict[int, Schema | None] = OrderedDict()

    async def schemas_of(self, contents: Iterable[bytes | None]) -> Schemas:
        """The schemas of these values, as far as the registry has them. Raises RegistryError."""
        ids = {found for content in contents if (found := schema_id_of(content)) is not None}
        await self._ask_for([schema_id for schema_id in ids if schema_id not in self._known][:MOST_ASKED])
        known = ((schema_id, self._known.get(schema_id)) for schema_id in ids)
        return {schema_id: schema for schema_id, schema in known if schema is not None}

    async def _ask_for(self, ids: Collection[int]) -> None:
        if not ids:
            return
        try:
            async with asyncio.timeout(ALL_S), aiohttp.ClientSession(timeout=TIMEOUT, auto_decompress=False) as session:
                for schema_id in ids:
                    self._known[schema_id] = await self._schema(session, schema_id)
        except ImportError as error:
            raise RegistryError("Avro is shown as bytes: pip install '/path/to/odradek[avro]'") from error
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise RegistryError(f"the schema registry cannot be asked: {type(error).__name__}") from error
        while len(self._known) > MOST_SCHEMAS:
            self._known.popitem(last=False)

    async def _schema(self, session: aiohttp.ClientSession, schema_id: int) -> Schema | None:
        """None for a schema that the registry does not have, or whose values are not decoded."""
        url = f"{self._url}/schemas/ids/{schema_id}"
        # It must not send this node to other addresses, which only the node may reach.
        async with session.get(url, headers=NOT_COMPRESSED, allow_redirects=False) as answer:
            if answer.status == 404:
                return None
            if 300 <= answer.status < 400:
                raise RegistryError("the schema registry leads elsewhere: set odradek.console.schema.registry to that")
            answer.raise_for_status()
            text = bytearray()
            while part := await answer.content.read(LONGEST_ANSWER):
                text += part
                if len(text) > LONGEST_ANSWER:
                    return None
        found = await asyncio.to_thread(json_of, bytes(text))
        if not isinstance(found, dict):
            raise ValueError("expected an object")
        match found.get("schemaType", "AVRO"):
            case "AVRO":
                avro = await asyncio.to_thread(parsed_avro, str(found.get("schema", "")))
                return None if avro is None else Schema(schema_id, avro)
            case "JSON":
                return Schema(schema_id, None)
        return None
