"""Records whose keys and values are encoded by a schema of the node's registry, with its id in front."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from broker.node import Node
from broker.testkit.control.endpoint import ControlError
from broker.testkit.control.schemas import BY_SCHEMA, NOT_FOUND, answer, codec_of, workers_of
from odradek.schemas import lookup
from odradek.schemas.codecs import Codec
from odradek.schemas.errors import SchemaError
from odradek.schemas.framing import with_prefix

OF_SCHEMA = ("id", "subject", "version", "message")
WHAT_A_SCHEMA_IS = "an object with id, or with subject and version, and for Protobuf message"


class Plan(NamedTuple):
    """A content that is to be encoded: the place of its record, whether it is the key or the value, and its schema."""

    at: int
    name: str
    content: Any
    schema_id: int
    codec: Codec


async def encoded(node: Node, topic: str, given: Sequence[object]) -> Sequence[object]:
    """The records with bytes in the place of what is to be encoded. Raises ControlError."""
    codecs: dict[str, tuple[int, Codec]] = {}
    plans: list[Plan] = []
    for at, record in enumerate(given):
        if not isinstance(record, dict):
            continue
        for name, (content, schema) in BY_SCHEMA.items():
            if content not in record and schema not in record:
                continue
            where = f"records[{at}]: "
            if content not in record:
                raise ControlError(f"{where}{schema} is given without {content}, the {name} as JSON", parameter=schema)
            wanted = record.get(schema, {})
            known = json.dumps([name, wanted], sort_keys=True)
            if known not in codecs:
                codecs[known] = await _codec(node, topic, wanted, name, where)
            plans.append(Plan(at, name, record[content], *codecs[known]))
    return await workers_of(node).call(partial(_with_bytes, tuple(given), tuple(plans))) if plans else given


async def _codec(node: Node, topic: str, given: Any, name: str, where: str) -> tuple[int, Codec]:
    """The id of the schema that is named, and the schema: by default the latest version of the topic's subject."""
    parameter = BY_SCHEMA[name][1]
    if not isinstance(given, dict) or not given.keys() <= set(OF_SCHEMA):
        raise ControlError(f"{where}{parameter} = {given!r}: expected {WHAT_A_SCHEMA_IS}", parameter=parameter)
    subject, version = given.get("subject", f"{topic}-{name}"), given.get("version", "latest")
    for field, value, kind in (("id", given.get("id", 0), int), ("subject", subject, str)):
        if not isinstance(value, kind) or isinstance(value, bool):
            raise ControlError(
                f"{where}{parameter}: {field} = {value!r}: expected {kind.__name__}", parameter=parameter
            )
    if version != "latest" and (not isinstance(version, int) or isinstance(version, bool)):
        raise ControlError(
            f"{where}{parameter}: version = {version!r}: expected a number or latest", parameter=parameter
        )
    try:
        schema_id: int | None = given["id"] if "id" in given else await _id(node, subject, version)
        codec = None if schema_id is None else await codec_of(node, schema_id, given.get("message"))
    except SchemaError as error:
        raise ControlError(f"{where}{parameter} = {given}: {error}", parameter=parameter) from error
    if schema_id is None or codec is None:
        missing = f"schema {given['id']}" if "id" in given else f"version {version} of {subject}: register one first"
        raise ControlError(f"{where}the registry has no {missing}", parameter=parameter, status=NOT_FOUND)
    return schema_id, codec


async def _id(node: Node, subject: str, version: int | str) -> int | None:
    found = await lookup.run_async(lookup.by_subject(subject, version), partial(answer, node))
    return None if found is None else found.id


def _with_bytes(given: Sequence[object], plans: Sequence[Plan]) -> list[object]:
    """Any thread. Raises ControlError for a content that is not of its schema."""
    records = list(given)
    for at, name, content, schema_id, codec in plans:
        record = records[at]
        assert isinstance(record, dict)
        try:
            payload = codec.encode(content)
        except SchemaError as error:
            raise ControlError(f"records[{at}]: {name} by schema {schema_id}: {error}", parameter=name) from error
        written = base64.b64encode(with_prefix(schema_id, payload)).decode()
        rest = {field: value for field, value in record.items() if field not in BY_SCHEMA[name]}
        records[at] = {**rest, f"{name}_base64": written}
    return records
