"""Values that a schema registry knows: Avro, and JSON with a schema, as Confluent's serializers write them.

Such a value begins with a zero byte and the id of its schema, four bytes. A schema never changes, so it is asked for
once. Schemas that refer to others are not followed: their values are shown as bytes, as are those that could do harm.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp

from broker.console import avro
from broker.console.decoding import LONGEST_JSON, Shown
from broker.control.budget import JSON_WORK, Budget, SpentError
from broker.http.bodies import json_of

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
    avro: Any | None

    def shown(self, content: bytes, most: int, budget: Budget, *, indented: bool) -> Shown | None:
        """The first `most` characters of the value as JSON; None if the bytes are not of this schema. Any thread."""
        kind = "JSON" if self.avro is None else "Avro"
        try:
            budget.spend(JSON_WORK * len(content))
            raw = content[ID_BYTES:]
            value = json_of(raw) if self.avro is None else avro.value_of(self.avro, raw)
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
                parsed = await asyncio.to_thread(avro.parsed, str(found.get("schema", "")))
                return None if parsed is None else Schema(schema_id, parsed)
            case "JSON":
                return Schema(schema_id, None)
        return None
