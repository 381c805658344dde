"""Keys and values that a schema registry knows: Avro, JSON Schema and Protobuf, as Confluent's serializers write them.

The registry is the node's own, which is asked with the rights of the console's user, or another one at a URL.
A schema never changes, so it is parsed once, with those that it refers to. What `odradek/schemas` does not decode,
as it could do harm, is shown as bytes. The libraries are an extra, and loaded when they are needed.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import aiohttp

from broker.console.formats import LONGEST_JSON, Shown
from broker.testkit.control.budget import JSON_WORK, Budget, SpentError
from odradek.schemas import codecs, lookup
from odradek.schemas.errors import MissingLibraryError, SchemaError
from odradek.schemas.framing import Framed, framed
from odradek.schemas.json_text import json_of
from protocol.records.build import Record

if TYPE_CHECKING:
    from broker.node_state import RegistryPort
    from broker.security.permissions import Permissions

MOST_SCHEMAS = 1000
MOST_ASKED = 20
"""Schemas that are asked for while one page is made."""

LONGEST_ANSWER = 1 << 20
"""A schema that takes more bytes is not decoded."""

NOT_COMPRESSED = {"Accept-Encoding": "identity"}
"""So that an answer is no longer than the bytes that are read of it."""

NOT_TOLD = (403, 404)

ALL_S = 6.0
"""For all schemas of a page."""

TIMEOUT = aiohttp.ClientTimeout(total=3)


class RegistryError(Exception):
    """The registry cannot be asked, or a library is missing; the text is for the page."""


@dataclass(frozen=True, slots=True)
class Schema:
    """`name` is an id or a GUID."""

    name: int | str
    codec: codecs.Codec

    def shown(self, part: Framed, most: int, budget: Budget, *, indented: bool) -> Shown | None:
        """The first `most` characters of the value as JSON; None if the bytes are not of this schema. Any thread."""
        try:
            budget.spend(JSON_WORK * len(part.payload))
            text, is_whole = budget.json(
                self.value(part), LONGEST_JSON if indented else most, indent=2 if indented else None
            )
        except (ValueError, SpentError):
            return None
        kind = f"{codecs.NAMES[self.codec.kind]}, schema {self.name}"
        return Shown(text, kind, 0 if is_whole else None)

    def value(self, part: Framed) -> Any:
        """What the bytes are. Any thread. Raises ValueError if they are not of this schema."""
        return self.codec.decode(part)


Schemas = Mapping[int | str, Schema]


def framed_parts(record: Record) -> tuple[Framed | None, Framed | None]:
    """Key and value with the names of their schemas."""
    return framed(record.key, record.headers, is_key=True), framed(record.value, record.headers)


def by_schema(part: Framed | None, schemas: Schemas) -> Any | None:
    """The value of bytes that have a schema; None for others, and for those that are not as their schema says."""
    schema = None if part is None else schemas.get(part.schema)
    if schema is None or part is None:
        return None
    try:
        return schema.value(part)
    except ValueError:
        return None


class AnyRegistry(Protocol):
    """A registry, asked for somebody."""

    is_own: bool
    """Whether it is this node's, where the user may change something."""

    async def schemas_of(self, names: Iterable[int | str]) -> Schemas:
        """The schemas of these ids and GUIDs, as far as the registry tells them. Raises RegistryError."""

    async def get(self, path: str) -> Any:
        """The JSON of an answer; None for what is not there, or not for this user. Raises RegistryError."""


Known = OrderedDict[tuple[object, ...], codecs.Codec | None]
"""Schemas that were parsed; None for one whose values are not decoded."""


class OwnRegistry:
    """The node's registry with a user's rights; everything is allowed without `permissions`."""

    is_own = True

    def __init__(self, port: RegistryPort, permissions: Permissions | None, known: Known) -> None:
        self._port = port
        self._permissions = permissions
        self._known = known

    async def schemas_of(self, names: Iterable[int | str]) -> Schemas:
        found = {}
        for name in list(dict.fromkeys(names))[:MOST_ASKED]:
            codec = await self._codec(name)
            if codec is not None:
                found[name] = Schema(name, codec)
        return found

    async def _codec(self, name: int | str) -> codecs.Codec | None:
        try:
            source = await lookup.run_async(lookup.by_name(name), self.get)
        except SchemaError:
            return None
        if source is None:
            return None
        key = source.kind, source.text, *source.needed.items()
        if key not in self._known:
            self._known[key] = await _parsed(source)
            while len(self._known) > MOST_SCHEMAS:
                self._known.popitem(last=False)
        return self._known.get(key)

    async def ask(self, method: str, path: str, body: Any = None, **query: str) -> tuple[int, Any]:
        """The status and the value of an answer."""
        return await self._port.ask_for(self._permissions, method, path, body, **query)

    async def get(self, path: str) -> Any:
        status, value = await self.ask("GET", path)
        if status in NOT_TOLD:
            return None
        if status != 200:
            raise RegistryError(f"the schema registry says: {value['message']}")
        return value


async def _parsed(source: lookup.Source) -> codecs.Codec | None:
    """None for a schema whose values are not decoded. Raises RegistryError."""
    try:
        return await asyncio.to_thread(codecs.codec_of, source)
    except MissingLibraryError as error:
        raise RegistryError(str(error)) from error
    except SchemaError:
        return None


class Registry:
    """Asks a registry at `url`, which may have a name and a password in it. It is read, and never changed."""

    is_own = False

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._known: OrderedDict[int | str, Schema | None] = OrderedDict()

    async def schemas_of(self, names: Iterable[int | str]) -> Schemas:
        """The schemas of these ids and GUIDs, as far as the registry has them. Raises RegistryError."""
        wanted = dict.fromkeys(names)
        await self._ask_for([name for name in wanted if name not in self._known][:MOST_ASKED])
        known = ((name, self._known.get(name)) for name in wanted)
        return {name: schema for name, schema in known if schema is not None}

    async def get(self, path: str) -> Any:
        try:
            async with asyncio.timeout(ALL_S), aiohttp.ClientSession(timeout=TIMEOUT, auto_decompress=False) as session:
                return await self._answer(session, path)
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise RegistryError(f"the schema registry cannot be asked: {type(error).__name__}") from error

    async def _ask_for(self, names: Collection[int | str]) -> None:
        if not names:
            return
        try:
            async with asyncio.timeout(ALL_S), aiohttp.ClientSession(timeout=TIMEOUT, auto_decompress=False) as session:
                for name in names:
                    self._known[name] = await self._schema(session, name)
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise RegistryError(f"the schema registry cannot be asked: {type(error).__name__}") from error
        while len(self._known) > MOST_SCHEMAS:
            self._known.popitem(last=False)

    async def _schema(self, session: aiohttp.ClientSession, name: int | str) -> Schema | None:
        """None for a schema that the registry does not have, or whose values are not decoded."""
        try:
            source = await lookup.run_async(lookup.by_name(name), lambda path: self._answer(session, path))
            codec = None if source is None else await _parsed(source)
            return None if codec is None else Schema(name, codec)
        except SchemaError:
            return None

    async def _answer(self, session: aiohttp.ClientSession, path: str) -> Any:
        """The JSON of an answer; None for what is not there."""
        # It must not send this node to other addresses, which only the node may reach.
        async with session.get(f"{self._url}{path}", headers=NOT_COMPRESSED, allow_redirects=False) as answer:
            if answer.status == 404:
                return None
            if 300 <= answer.status < 400:
                raise RegistryError("the schema registry leads elsewhere: set odradek.console.schema.registry to that")
            answer.raise_for_status()
            text = bytearray()
            while part := await answer.content.read(LONGEST_ANSWER):
                text += part
                if len(text) > LONGEST_ANSWER:
                    raise SchemaError("the schema is too large to be decoded")
        return await asyncio.to_thread(json_of, bytes(text))
