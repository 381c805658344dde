"""Requests as bytes and replies as entities, by kio's own codec."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from kio.schema.fetch.v12.request import FetchPartition, FetchTopic
from kio.schema.produce.v9.request import PartitionProduceData, TopicProduceData
from kio.serial import entity_reader, entity_writer

from protocol.api import messages
from protocol.api.table import API_BY_NAME
from protocol.records.build import Record, build_batch

NOW = 1_700_000_000_000


def frame(api: str, version: int, correlation: int, *, client_id: str | None = "test", **fields: Any) -> bytes:
    """One request's bytes, size prefix included."""
    row = API_BY_NAME[api]
    return entity_frame(messages.request_class(row.key, version)(**fields), correlation, client_id)


def entity_frame(request: Any, correlation: int, client_id: str | None = "test") -> bytes:
    out = io.BytesIO()
    header = request.__header_schema__(
        request_api_key=request.__api_key__,
        request_api_version=request.__version__,
        correlation_id=correlation,
        client_id=client_id,
    )
    entity_writer(type(header))(out, header)
    entity_writer(type(request))(out, request)
    return sized(out.getvalue())


def sized(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def answer(reply: bytes, api: str, version: int) -> Any:
    """A reply's body, as kio's class; nothing may follow it."""
    row = API_BY_NAME[api]
    header_size = 5 if row.response_header_version(version) == 1 else 4
    entity, size = entity_reader(messages.response_class(row.key, version))(reply, header_size)
    assert header_size + size == len(reply)
    return entity


def correlation_of(reply: bytes) -> int:
    return int.from_bytes(reply[:4], "big")


def batch(*values: bytes, **fields: Any) -> bytes:
    """A batch of one record per value."""
    return bytes(build_batch([Record(i, NOW + i, None, value) for i, value in enumerate(values)], **fields))


def produce(
    topic: str, records: Mapping[int, bytes | None], acks: int = -1, timeout_ms: int = 30_000
) -> dict[str, Any]:
    """The fields of Produce 9 to one topic's partitions."""
    data = tuple(PartitionProduceData(index=index, records=one) for index, one in records.items())
    topics = (TopicProduceData(name=topic, partition_data=data),)
    return {"acks": acks, "timeout": timedelta(milliseconds=timeout_ms), "topic_data": topics}


def fetch(
    places: Sequence[tuple[str, int, int]],
    *,
    max_wait_ms: int = 500,
    min_bytes: int = 1,
    max_bytes: int = 50 * 1024 * 1024,
    partition_max_bytes: int = 1024 * 1024,
    **fields: Any,
) -> dict[str, Any]:
    """The fields of Fetch 12 at (topic, partition, offset)s, without a session."""
    topics = tuple(
        FetchTopic(
            topic=topic,
            partitions=(FetchPartition(partition=index, fetch_offset=at, partition_max_bytes=partition_max_bytes),),
        )
        for topic, index, at in places
    )
    return {
        "max_wait": timedelta(milliseconds=max_wait_ms),
        "min_bytes": min_bytes,
        "max_bytes": max_bytes,
        "topics": topics,
        "forgotten_topics_data": (),
        **fields,
    }
