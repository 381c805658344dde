"""Whether records name schemas of their topic's subject: `confluent.value.schema.validation`, `confluent.key...`.

A batch is unpacked in a thread, and gives the schemas that its records name, each with the records that do so. The
registry says which subjects a schema has: as strictly as it answers clients, whoever leads its topic. Null keys and
values need no schema. Ids are those of the default context: a record does not say another one.
"""

from __future__ import annotations

import asyncio
import hashlib
import struct
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from kio.schema.errors import ErrorCode

from broker.config.resource_configs import topic_value
from broker.registry import subjects
from broker.replication.batch_checks import SchemaCheckError
from odradek.schemas import lookup
from odradek.schemas.errors import SchemaError
from odradek.schemas.framing import framed
from odradek.schemas.json_text import json_of
from odradek.schemas.lookup import AVRO, JSON, Source
from protocol.errors import InvalidRecord
from protocol.records.batch import ATTRIBUTES_LOW_AT, COMPRESSION_MASK, HEADER_SIZE, read_header
from protocol.records.build import decode_section
from protocol.records.compression import Compression, DecompressionError
from protocol.records.walk import decompressed
from storage.log.record_checks import MOST_RECORD_ERRORS, refused_records

if TYPE_CHECKING:
    from broker.node import Node
    from protocol.errors import KafkaError

KEY, VALUE = "key", "value"
SIDES = (KEY, VALUE)
MOST_SCHEMAS = 200
"""Schemas that a batch may name: each is asked for."""

BEFORE_OTHERS = 20
"""So many are asked for before the loop serves others."""

MOST_NAMES = 500
NOT_FOUND = 404

Ask = Callable[..., Awaitable[tuple[int, Any]]]
Errors = list[tuple[int, str | None]]


class Use(NamedTuple):
    """Records of a batch that name a schema; None: that name none. `records` may be more than there are `places`."""

    side: str
    schema: int | str | None
    places: Sequence[int]
    records: int


class UnansweredError(Exception):
    """The registry does not answer now."""


class UnreadableError(Exception):
    """The records of a batch cannot be read."""


class Validation:
    """`ask` gives the status and the value of the registry's answer."""

    def __init__(self, node: Node, ask: Ask) -> None:
        self._node = node
        self._ask = ask
        self._names: OrderedDict[bytes, frozenset[str]] = OrderedDict()

    async def wrong_schemas(self, topic: str, batch: memoryview) -> KafkaError | None:
        """See `broker.replication.batch_checks.SchemaCheck`."""
        configs = self._node.cluster.cache.topic_configs(topic)
        sides = tuple(side for side in SIDES if topic_value(configs, f"confluent.{side}.schema.validation"))
        try:
            uses = await self._workers().call(partial(uses_of, batch, sides))
        except UnreadableError as error:
            return InvalidRecord(f"The schemas that the records name cannot be read: {error}", on_wire=True)
        if len(uses) > MOST_SCHEMAS:
            return refused_records([(0, f"the batch names more than {MOST_SCHEMAS} schemas")], 1)
        errors: Errors = []
        refused = 0
        try:
            for number, use in enumerate(uses):
                why = await self._why_not(topic, use, configs)
                if why is not None:
                    refused += use.records
                    errors += [(place, why) for place in use.places]
                if number % BEFORE_OTHERS == BEFORE_OTHERS - 1:
                    await asyncio.sleep(0)
        except UnansweredError as error:
            return SchemaCheckError(ErrorCode.request_timed_out, f"The schemas of {topic} are not known now: {error}")
        return refused_records(sorted(errors)[:MOST_RECORD_ERRORS], refused) if errors else None

    def _workers(self) -> Any:
        return self._node.base.seams.workers.lane("large batches")

    async def _why_not(self, topic: str, use: Use, configs: Mapping[str, str]) -> str | None:
        """Why a schema is none of its subject."""
        if use.schema is None:
            return (
                f"the {use.side} names no schema: neither by an id in front, nor by the header __{use.side}_schema_id"
            )
        found = await self._versions(use.schema)
        if not found:
            return f"the {use.side} names schema {use.schema}, which the registry does not have"
        strategy = str(topic_value(configs, f"confluent.{use.side}.subject.name.strategy")).rpartition(".")[2]
        expected = {f"{topic}-{use.side}"}
        if strategy in ("RecordNameStrategy", "TopicRecordNameStrategy"):
            prefix = f"{topic}-" if strategy.startswith("Topic") else ""
            expected = {f"{prefix}{name}" for name in await self._record_names(use.schema)}
        if expected.isdisjoint(found):
            names = " or ".join(sorted(expected)) or "a record's name, which it does not have"
            return f"the {use.side} names schema {use.schema}, which is none of subject {names}"
        return None

    async def _versions(self, schema: int | str) -> set[str]:
        """The subjects that have the schema now."""
        ids = [schema]
        if isinstance(schema, str):
            found = await self._answer(f"/schemas/guids/{schema}/ids") or []
            ids = [each["id"] for each in found if each["context"] == subjects.DEFAULT]
        return {each["subject"] for known in ids for each in await self._answer(f"/schemas/ids/{known}/versions") or []}

    async def _record_names(self, schema: int | str) -> frozenset[str]:
        """The names of the records, or messages, that the schema describes."""
        try:
            source = await lookup.run_async(lookup.by_name(schema), self._answer)
            if source is None:
                return frozenset()
            digest = hashlib.sha256(f"{source.kind}\0{source.text}".encode()).digest()
            if digest not in self._names:
                self._names[digest] = await self._workers().call(partial(record_names, source))
                if len(self._names) > MOST_NAMES:
                    self._names.popitem(last=False)
            return self._names[digest]
        except SchemaError as error:
            raise UnansweredError(str(error)) from error

    async def _answer(self, path: str) -> Any:
        """None for what the registry does not have. Raises UnansweredError."""
        status, value = await self._ask("GET", path)
        if status == NOT_FOUND:
            return None
        if status != 200:
            raise UnansweredError(f"{value['message']} ({value['error_code']})")
        return value


def uses_of(batch: memoryview, sides: Sequence[str]) -> tuple[Use, ...]:
    """The schemas that the records name. For a thread. Raises UnreadableError."""
    found: dict[tuple[str, int | str | None], list[int]] = {}
    counts: dict[tuple[str, int | str | None], int] = {}
    try:
        header = read_header(batch)
        with decompressed(Compression(batch[ATTRIBUTES_LOW_AT] & COMPRESSION_MASK), batch[HEADER_SIZE:]) as section:
            for place, record in enumerate(decode_section(section, header)):
                for side in sides:
                    content = record.key if side == KEY else record.value
                    if content is None:
                        continue
                    part = framed(content, record.headers, is_key=side == KEY)
                    use = side, None if part is None else part.schema
                    places = found.setdefault(use, [])
                    counts[use] = counts.get(use, 0) + 1
                    if len(places) < MOST_RECORD_ERRORS:
                        places.append(place)
                if len(found) > MOST_SCHEMAS:
                    break
    except (ValueError, IndexError, struct.error, DecompressionError) as error:
        raise UnreadableError(str(error)) from error
    return tuple(Use(*use, tuple(places), counts[use]) for use, places in found.items())


def record_names(source: Source) -> frozenset[str]:
    """As Confluent's `ParsedSchema.name`, but for Protobuf all messages of the file. Raises SchemaError."""
    if source.kind not in (AVRO, JSON):
        return _messages(source)
    try:
        schema = json_of(source.text)
    except ValueError:
        return frozenset()  # a plain name of Avro's
    if not isinstance(schema, dict):
        return frozenset()
    name = schema.get("name" if source.kind == AVRO else "title")
    if not isinstance(name, str):
        return frozenset()
    namespace = schema.get("namespace")
    if source.kind == AVRO and "." not in name and isinstance(namespace, str) and namespace:
        return frozenset({f"{namespace}.{name}"})
    return frozenset({name})


def _messages(source: Source) -> frozenset[str]:
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    from odradek.schemas import protoc

    file = FileDescriptorSet.FromString(protoc.compile_text(source.text, source.needed)).file[-1]
    rest = [(file.package, message) for message in file.message_type]
    found = set()
    while rest:
        above, message = rest.pop()
        name = f"{above}.{message.name}" if above else message.name
        found.add(name)
        rest += [(name, inner) for inner in message.nested_type]
    return frozenset(found)
