"""Keys and values of records by the schemas of the node's registry, decoded for answers.

Where no schema was ever registered nothing is looked at.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from broker.node import Node
from broker.testkit.control.endpoint import ControlError
from odradek.schemas import codecs, lookup
from odradek.schemas.codecs import Codec
from odradek.schemas.errors import SchemaError
from odradek.schemas.framing import framed
from protocol.records.build import Record
from storage.workers import Workers

MOST_KNOWN = 1000
LANE = "schemas"
NOT_FOUND = 404
BEFORE_OTHERS = 20
"""So many schemas are asked for before the loop serves others."""

BY_SCHEMA = {"value": ("json", "schema"), "key": ("key_json", "key_schema")}
"""The fields of a record for a content and its schema: the content as JSON, and which schema."""


class Decoded(NamedTuple):
    """A content by its schema: the value as JSON has it, or why there is none."""

    schema: int | str
    kind: str | None
    value: Any = None
    problem: str | None = None

    @property
    def as_json(self) -> dict[str, Any]:
        """What an answer says of the schema."""
        found = {"id" if isinstance(self.schema, int) else "guid": self.schema, "type": self.kind}
        return found if self.problem is None else {**found, "problem": self.problem}


@dataclass(frozen=True, slots=True)
class Schemas:
    """Codecs by id and GUID; for what cannot be decoded, a text that says why. Never changed: threads may have it."""

    codecs: Mapping[int | str, Codec | str]

    def value(self, record: Record) -> Decoded | None:
        return self._decoded(record, is_key=False)

    def key(self, record: Record) -> Decoded | None:
        return self._decoded(record, is_key=True)

    def _decoded(self, record: Record, *, is_key: bool) -> Decoded | None:
        """None for a content that names no schema."""
        if not self.codecs:
            return None
        part = framed(record.key if is_key else record.value, record.headers, is_key=is_key)
        codec = None if part is None else self.codecs.get(part.schema)
        if part is None or codec is None:
            return None
        if isinstance(codec, str):
            return Decoded(part.schema, None, problem=codec)
        try:
            return Decoded(part.schema, codec.kind, codecs.plain(codec.decode(part)))
        except (SchemaError, ValueError) as error:
            return Decoded(part.schema, codec.kind, problem=str(error))


NONE = Schemas({})

_known: WeakKeyDictionary[Node, OrderedDict[tuple[int | str, str | None], Codec]] = WeakKeyDictionary()


def forget(node: Node) -> None:
    """Ask anew for each schema: ids may stand for others now."""
    _known.pop(node, None)


async def schemas_of(node: Node, records: Iterable[Record], known: Schemas = NONE) -> Schemas:
    """The schemas that these records name, besides those that are known.

    Of names that the registry does not have only these records' stay: bytes that begin with a zero name one, and each
    record of a topic may name another.
    """
    if node.registry is None or not node.registry.in_use:
        return known
    names = {
        part.schema
        for record in records
        for content, is_key in ((record.key, True), (record.value, False))
        if (part := framed(content, record.headers, is_key=is_key)) is not None
    }
    asked = [name for name in names if isinstance(known.codecs.get(name), str | None)]
    if not asked:
        return known
    found: dict[int | str, Codec | str] = {}
    found |= {name: codec for name, codec in known.codecs.items() if not isinstance(codec, str)}
    for number, name in enumerate(asked, 1):
        found[name] = await _codec_or_why(node, name)
        if number % BEFORE_OTHERS == 0:
            await asyncio.sleep(0)
    return Schemas(found)


async def _codec_or_why(node: Node, name: int | str) -> Codec | str:
    try:
        codec = await codec_of(node, name)
    except (SchemaError, ControlError) as error:  # records are read without a registry that answers, too
        return str(error)
    return f"the registry has no schema {name}" if codec is None else codec


async def codec_of(node: Node, name: int | str, message: str | None = None) -> Codec | None:
    """None if the registry does not know it. Raises SchemaError."""
    of_node = _known.setdefault(node, OrderedDict())
    if (name, message) not in of_node:
        source = await lookup.run_async(lookup.by_name(name), partial(answer, node))
        if source is None:
            return None
        of_node[name, message] = await workers_of(node).call(partial(codecs.codec_of, source, message))
        if len(of_node) > MOST_KNOWN:
            of_node.popitem(last=False)
    return of_node[name, message]


def workers_of(node: Node) -> Workers:
    """The lane in which schemas are parsed, and used."""
    return node.base.seams.workers.lane(LANE)


async def answer(node: Node, path: str) -> Any:
    """What the registry answers; None for 404. Raises ControlError."""
    return await ask(node, "GET", path, missing=None)


_REFUSED = object()


async def ask(node: Node, method: str, path: str, body: Any = None, *, missing: Any = _REFUSED, **query: str) -> Any:
    """What the registry answers; `missing` for 404, if it is given. Raises ControlError."""
    if node.registry is None:
        raise ControlError("this node is no broker, and has no schema registry", status=409)
    status, value = await node.registry.ask(method, path, body, **query)
    if status == 200:
        return value
    if status == NOT_FOUND and missing is not _REFUSED:
        return missing
    raise ControlError(f"{value['message']} ({value['error_code']})", parameter="schema", status=status)
