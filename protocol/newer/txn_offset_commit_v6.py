"""TxnOffsetCommit 6: topics by id."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from kio.schema.txn_offset_commit.v5.request import TxnOffsetCommitRequestPartition
from kio.schema.txn_offset_commit.v5.response import TxnOffsetCommitResponsePartition

from .declare import of, request, response


@request(28, 6, nested=True)
class TxnOffsetCommitRequestTopic:
    topic_id: UUID | None = of("uuid")
    partitions: tuple[TxnOffsetCommitRequestPartition, ...]


@request(28, 6)
class TxnOffsetCommitRequest:
    transactional_id: str = of("string")
    group_id: str = of("string")
    producer_id: int = of("int64")
    producer_epoch: int = of("int16")
    generation_id: int = of("int32", default=-1)
    member_id: str = of("string", default="")
    group_instance_id: str | None = of("string", default=None)
    topics: tuple[TxnOffsetCommitRequestTopic, ...]


@response(28, 6, nested=True)
class TxnOffsetCommitResponseTopic:
    topic_id: UUID | None = of("uuid")
    partitions: tuple[TxnOffsetCommitResponsePartition, ...]


@response(28, 6)
class TxnOffsetCommitResponse:
    throttle_time: timedelta = of("timedelta_i32")
    topics: tuple[TxnOffsetCommitResponseTopic, ...]


REQUEST, RESPONSE = TxnOffsetCommitRequest, TxnOffsetCommitResponse
