"""TxnOffsetCommit as its handler sees it, where a topic has a name up to version 5, an id from 6 on; and version 6."""

from __future__ import annotations

from kio.schema.txn_offset_commit.v5.request import TxnOffsetCommitRequestPartition
from kio.schema.txn_offset_commit.v5.response import TxnOffsetCommitResponsePartition

from ..declared import Int16, Int32, Int64, String, Uuid
from .declare import Milliseconds, by_id, request, response


@request(28, 6, nested=True)
class TxnOffsetCommitRequestTopic:
    name: String = ""
    topic_id: Uuid | None = None
    partitions: tuple[TxnOffsetCommitRequestPartition, ...]


@request(28, 6)
class TxnOffsetCommitRequest:
    transactional_id: String
    group_id: String
    producer_id: Int64
    producer_epoch: Int16
    generation_id: Int32 = -1
    member_id: String = ""
    group_instance_id: String | None = None
    topics: tuple[TxnOffsetCommitRequestTopic, ...]


@response(28, 6, nested=True)
class TxnOffsetCommitResponseTopic:
    name: String = ""
    topic_id: Uuid | None = None
    partitions: tuple[TxnOffsetCommitResponsePartition, ...]


@response(28, 6)
class TxnOffsetCommitResponse:
    throttle_time: Milliseconds
    topics: tuple[TxnOffsetCommitResponseTopic, ...]


TxnOffsetCommit6Request = by_id(TxnOffsetCommitRequest, TxnOffsetCommitRequestTopic)
TxnOffsetCommit6Response = by_id(TxnOffsetCommitResponse, TxnOffsetCommitResponseTopic)
