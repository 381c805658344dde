"""Schemas in a broker's registry, and values as other clients write them with these: by fastavro and protobuf."""

from __future__ import annotations

import io
import json
import struct
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import fastavro

from odradek import Broker
from tests.brokers import sound_broker


@contextmanager
def registry_broker() -> Iterator[Broker]:
    """A broker with a registry that keeps records of any age."""
    with sound_broker({"log.retention.ms": -1, "schema.registry.listeners": "http://127.0.0.1:0"}) as broker:
        yield broker


def ask(broker: Broker, way: str, body: object = None, method: str | None = None) -> Any:
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(broker.registry_urls[0] + way, content, method=method)
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def register(
    broker: Broker, subject: str, schema: object, kind: str = "AVRO", references: Sequence[Mapping[str, Any]] = ()
) -> int:
    """The id of a schema in a subject where any schema may follow any other."""
    ask(broker, f"/config/{subject}", {"compatibility": "NONE"}, "PUT")
    text = schema if isinstance(schema, str) else json.dumps(schema)
    body = {"schema": text, "schemaType": kind, "references": list(references)}
    return int(ask(broker, f"/subjects/{subject}/versions", body)["id"])


def guid(broker: Broker, subject: str) -> bytes:
    """Of the latest version, as a header has it."""
    return b"\1" + bytes.fromhex(ask(broker, f"/subjects/{subject}/versions/latest")["guid"].replace("-", ""))


def prefixed(schema_id: int, payload: bytes) -> bytes:
    return b"\0" + struct.pack(">I", schema_id) + payload


def avro(schema: Any, value: Any) -> bytes:
    written = io.BytesIO()
    fastavro.schemaless_writer(written, fastavro.parse_schema(schema), value)
    return written.getvalue()
