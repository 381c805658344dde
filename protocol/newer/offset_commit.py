"""OffsetCommit as its handler sees it: up to version 9 a topic has a name, from 10 on an id (KIP-848)."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from kio.schema.offset_commit.v10.request import OffsetCommitRequestPartition
from kio.schema.offset_commit.v10.response import OffsetCommitResponsePartition

from .declare import of, request, response


@request(8, 10, nested=True)
class OffsetCommitRequestTopic:
    name: str = of("string", default="")
    topic_id: UUID | None = of("uuid", default=None)
    partitions: tuple[OffsetCommitRequestPartition, ...]


@request(8, 10)
class OffsetCommitRequest:
    group_id: str = of("string")
    generation_id_or_member_epoch: int = of("int32", default=-1)
    member_id: str = of("string", default="")
    group_instance_id: str | None = of("string", default=None)
    topics: tuple[OffsetCommitRequestTopic, ...]


@response(8, 10, nested=True)
class OffsetCommitResponseTopic:
    name: str = of("string", default="")
    topic_id: UUID | None = of("uuid", default=None)
    partitions: tuple[OffsetCommitResponsePartition, ...]


@response(8, 10)
class OffsetCommitResponse:
    throttle_time: timedelta = of("timedelta_i32")
    topics: tuple[OffsetCommitResponseTopic, ...]


REQUEST, RESPONSE = OffsetCommitRequest, OffsetCommitResponse
