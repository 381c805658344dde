"""A decoded request as JSON values: Kafka's field names, durations in seconds, bytes as text or as base64.

Timestamps of records are milliseconds since the Unix epoch, as clients have them. A time below zero is none, but stands
for something (-1 for "not given", mostly), and stays the number that it is in the message.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from broker.faults.matching import OLD_PREFIX, raw_of, topic_name
from protocol.api.names import error_name
from protocol.records.batch import HEADER_SIZE, read_header
from protocol.records.compression import DecompressionError
from protocol.records.cut import CutLimits, cut_records

if TYPE_CHECKING:
    from broker.request_context import RequestContext
    from protocol.api.row import Api

MOST_RECORDS = 100
"""How many records of a partition of a Produce request are decoded."""

LONGEST_BYTES = 64 * 1024
"""How much of a value is kept."""

MILLISECOND = timedelta(milliseconds=1)
EPOCH = datetime.fromtimestamp(0, UTC)
MOST = CutLimits(LONGEST_BYTES, headers=100, header_content=LONGEST_BYTES)

Json = dict[str, Any]


def as_json(api: Api, ctx: RequestContext, request: Any) -> Json:
    """The request with what its header and its connection say of it."""
    return {
        "api": api.kafka_name,
        "version": ctx.version,
        "client_id": ctx.client_id,
        "correlation_id": ctx.correlation_id,
        "listener": ctx.connection.listener_name,
        "client_host": ctx.connection.client_host,
        "client_port": ctx.connection.client_port,
        **_body(api, ctx, request),
    }


def bytes_as_json(name: str, value: bytes | None) -> Json:
    """A field for text, or with `_base64` in its name for anything else."""
    if value is None:
        return {name: None}
    value = bytes(value[:LONGEST_BYTES])
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value).decode()}


def _body(api: Api, ctx: RequestContext, request: Any) -> Json:
    if api.name == "produce":
        return {
            "transactional_id": request.transactional_id,
            "acks": request.acks,
            "timeout": _seconds(request.timeout_ms),
            "topics": [
                {
                    "name": topic_name(ctx, key),
                    "partitions": [{"index": index, **_records(records)} for index, records in entries],
                }
                for key, entries in request.topics
            ],
        }
    if api.own_codec:
        return _fetch(ctx, request)
    return entity_as_json(raw_of(ctx, request))


def _fetch(ctx: RequestContext, request: Any) -> Json:
    found = entity_as_json(request)
    found["max_wait"] = _seconds(found.pop("max_wait_ms"))
    found["topics"] = [
        {"name": topic_name(ctx, key), "partitions": [entity_as_json(partition) for partition in partitions]}
        for key, partitions in request.topics
    ]
    found["forgotten_topics"] = [
        {"name": topic_name(ctx, key), "partitions": list(indexes)} for key, indexes in request.forgotten_topics
    ]
    return found


def _records(records: memoryview | None) -> Json:
    if records is None:
        return {"records": None}
    try:
        found = [record for record, _ in zip(_walk(records), range(MOST_RECORDS), strict=False)]
    except (ValueError, struct.error, DecompressionError) as error:
        return {"size": len(records), "records": [], "undecoded": str(error)}
    return {"size": len(records), "records": found}


def _not_counted(_work: int) -> None:
    """Render the records, which are few, and each is cut: that is bound enough."""


def _walk(records: memoryview) -> Iterator[Json]:
    at = 0
    while at + HEADER_SIZE <= len(records):
        header = read_header(records, at)
        if header.size < HEADER_SIZE:
            raise ValueError(f"a batch of {header.size} bytes")
        for record, _ in cut_records(records, header, at, header.base_offset, MOST, spend=_not_counted):
            yield {
                **bytes_as_json("key", record.key),
                **bytes_as_json("value", record.value),
                "headers": [
                    {**bytes_as_json("key", key), **bytes_as_json("value", value)}
                    for key, value in record.headers or ()
                ],
                "timestamp": record.timestamp,
                "producer_id": header.producer_id,
                "producer_epoch": header.producer_epoch,
                "transactional": header.is_transactional,
            }
        at += header.size


def entity_as_json(entity: Any) -> Json:
    """The fields of a request or an answer, all the way down; of records only the size."""
    found: Json = {}
    for name in getattr(entity, "_fields", None) or [field.name for field in fields(entity)]:
        if not name.startswith("_"):
            found |= _field(name.removeprefix(OLD_PREFIX), getattr(entity, name))
    return found


def _field(name: str, value: Any) -> Json:
    if not isinstance(value, bytes | bytearray | memoryview):
        return {name: _plain(value)}
    if name == "records":
        return {name: f"{len(value)} bytes"}
    found = bytes_as_json(name, bytes(value))
    if not found.get(name, "").isprintable():  # binary, though it happens to be UTF-8 too
        return {f"{name}_base64": base64.b64encode(value).decode()}
    return found


def _seconds(ms: float) -> float:
    return ms / 1000 if ms >= 0 else round(ms)


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | str | float):
        return value
    if isinstance(value, ErrorCode):
        return error_name(value)
    if isinstance(value, Enum | int):
        return int(value.value) if isinstance(value, Enum) else int(value)
    if isinstance(value, timedelta):
        return _seconds(value / MILLISECOND)
    if isinstance(value, datetime):
        return _seconds((value - EPOCH) / MILLISECOND)
    if is_dataclass(value):
        return entity_as_json(value)
    if isinstance(value, list | tuple):
        return [_plain(element) for element in value]
    return str(value)
