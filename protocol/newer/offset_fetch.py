"""OffsetFetch as its handler sees it: up to version 9 a topic has a name, from 10 on an id (KIP-848)."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.offset_fetch.v10.response import OffsetFetchResponsePartitions

from .declare import of, request, response


@request(9, 10, nested=True)
class OffsetFetchRequestTopics:
    name: str = of("string", default="")
    topic_id: UUID | None = of("uuid", default=None)
    partition_indexes: tuple[int, ...] = of("int32", default=())


@request(9, 10, nested=True)
class OffsetFetchRequestGroup:
    group_id: str = of("string")
    member_id: str | None = of("string", default=None)
    member_epoch: int = of("int32", default=-1)
    topics: tuple[OffsetFetchRequestTopics, ...] | None


@request(9, 10)
class OffsetFetchRequest:
    groups: tuple[OffsetFetchRequestGroup, ...]
    require_stable: bool = of("bool", default=False)


@response(9, 10, nested=True)
class OffsetFetchResponseTopics:
    name: str = of("string", default="")
    topic_id: UUID | None = of("uuid", default=None)
    partitions: tuple[OffsetFetchResponsePartitions, ...]


@response(9, 10, nested=True)
class OffsetFetchResponseGroup:
    group_id: str = of("string")
    topics: tuple[OffsetFetchResponseTopics, ...]
    error_code: ErrorCode = of("error_code", default=ErrorCode.none)


@response(9, 10)
class OffsetFetchResponse:
    throttle_time: timedelta = of("timedelta_i32")
    groups: tuple[OffsetFetchResponseGroup, ...]


REQUEST, RESPONSE = OffsetFetchRequest, OffsetFetchResponse
