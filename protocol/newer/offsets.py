"""OffsetCommit and OffsetFetch as their handlers see them: a topic has a name up to version 9, an id from 10 on."""

from __future__ import annotations

from kio.schema.offset_commit.v10.request import OffsetCommitRequestPartition
from kio.schema.offset_commit.v10.response import OffsetCommitResponsePartition
from kio.schema.offset_fetch.v10.response import OffsetFetchResponsePartitions

from ..declared import Bool, Int32, String, Uuid
from .declare import ErrorCode, Milliseconds, request, response

# -- OffsetCommit


@request(8, 10, nested=True)
class OffsetCommitRequestTopic:
    name: String = ""
    topic_id: Uuid | None = None
    partitions: tuple[OffsetCommitRequestPartition, ...]


@request(8, 10)
class OffsetCommitRequest:
    group_id: String
    generation_id_or_member_epoch: Int32 = -1
    member_id: String = ""
    group_instance_id: String | None = None
    topics: tuple[OffsetCommitRequestTopic, ...]


@response(8, 10, nested=True)
class OffsetCommitResponseTopic:
    name: String = ""
    topic_id: Uuid | None = None
    partitions: tuple[OffsetCommitResponsePartition, ...]


@response(8, 10)
class OffsetCommitResponse:
    throttle_time: Milliseconds
    topics: tuple[OffsetCommitResponseTopic, ...]


# -- OffsetFetch


@request(9, 10, nested=True)
class OffsetFetchRequestTopics:
    name: String = ""
    topic_id: Uuid | None = None
    partition_indexes: tuple[Int32, ...] = ()


@request(9, 10, nested=True)
class OffsetFetchRequestGroup:
    group_id: String
    member_id: String | None = None
    member_epoch: Int32 = -1
    topics: tuple[OffsetFetchRequestTopics, ...] | None


@request(9, 10)
class OffsetFetchRequest:
    groups: tuple[OffsetFetchRequestGroup, ...]
    require_stable: Bool = False


@response(9, 10, nested=True)
class OffsetFetchResponseTopics:
    name: String = ""
    topic_id: Uuid | None = None
    partitions: tuple[OffsetFetchResponsePartitions, ...]


@response(9, 10, nested=True)
class OffsetFetchResponseGroup:
    group_id: String
    topics: tuple[OffsetFetchResponseTopics, ...]
    error_code: ErrorCode = ErrorCode.none


@response(9, 10)
class OffsetFetchResponse:
    throttle_time: Milliseconds
    groups: tuple[OffsetFetchResponseGroup, ...]
