"""OffsetCommit 2-9 (Kafka's `KafkaApis.handleOffsetCommitRequest`).

Partitions that are not there are refused before the group coordinator is asked about the others, and come first in the
answer, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from datetime import timedelta
from functools import lru_cache

from kio.schema.errors import ErrorCode
from kio.schema.offset_commit.v9 import OffsetCommitRequest, OffsetCommitResponse
from kio.schema.offset_commit.v9.response import OffsetCommitResponsePartition, OffsetCommitResponseTopic

from broker.network.answers import when_done
from broker.network.context import RequestContext
from coordinator.group.offsets.offsets import Commit, OffsetToCommit
from protocol.durations import MILLISECOND, ZERO
from protocol.entities import maker
from protocol.errors import KafkaError

LAST_VERSION_WITH_RETENTION = 4
FIRST_VERSION_WITH_MEMBER_EPOCHS = 9
BROKERS_RETENTION = timedelta(milliseconds=-1)

Named = list[tuple[str, list[OffsetCommitResponsePartition]]]

new_response = maker(OffsetCommitResponse)
new_topic = maker(OffsetCommitResponseTopic)


def handle(ctx: RequestContext, request: OffsetCommitRequest) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    offsets, refused = _split(ctx, request)
    if not offsets:
        return _response(refused)
    commit = Commit(
        group_id=request.group_id,
        offsets=offsets,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        generation=request.generation_id_or_member_epoch,
        retention_ms=_retention_ms(ctx),
        knows_member_epochs=ctx.version >= FIRST_VERSION_WITH_MEMBER_EPOCHS,
    )
    answer = ctx.node.group_coordinator.write(request.group_id, lambda state: state.offsets.commit(commit))
    return when_done(answer, lambda codes: _response(_merged(request, refused, zip(offsets, codes, strict=True))))


def _split(ctx: RequestContext, request: OffsetCommitRequest) -> tuple[list[OffsetToCommit], Named]:
    offsets: list[OffsetToCommit] = []
    refused: dict[str, list[OffsetCommitResponsePartition]] = {}
    for topic in request.topics:
        name = topic.name
        known = ctx.node.topics.get(name)
        if known is None:
            refused.setdefault(name, [])  # answered even without partitions
        count = 0 if known is None else len(known.partitions)
        for asked in topic.partitions:
            index = asked.partition_index
            if 0 <= index < count:
                offsets.append(
                    OffsetToCommit(
                        name, index, asked.committed_offset, asked.committed_leader_epoch, asked.committed_metadata
                    )
                )
            else:
                refused.setdefault(name, []).append(_partition(index, ErrorCode.unknown_topic_or_partition))
    return offsets, list(refused.items())


def _retention_ms(ctx: RequestContext) -> int | None:
    if ctx.version > LAST_VERSION_WITH_RETENTION or ctx.raw.retention_time == BROKERS_RETENTION:
        return None
    retention: timedelta = ctx.raw.retention_time
    return retention // MILLISECOND


def _merged(request: OffsetCommitRequest, refused: Named, codes: Iterable[tuple[OffsetToCommit, ErrorCode]]) -> Named:
    """With nothing refused a topic that is named twice is answered twice; otherwise it is one."""
    if not refused:
        by_index = iter(codes)
        return [
            (topic.name, [_partition(asked.partition_index, next(by_index)[1]) for asked in topic.partitions])
            for topic in request.topics
            if topic.partitions
        ]
    by_topic = dict(refused)
    for offset, code in codes:
        by_topic.setdefault(offset.topic, []).append(_partition(offset.partition, code))
    return list(by_topic.items())


@lru_cache(maxsize=1024)  # the same few for ever
def _partition(index: int, code: ErrorCode) -> OffsetCommitResponsePartition:
    return OffsetCommitResponsePartition(partition_index=index, error_code=code)


def _response(topics: Named) -> OffsetCommitResponse:
    return new_response(
        throttle_time=ZERO,
        topics=tuple(new_topic(name=name, partitions=tuple(found)) for name, found in topics),
    )


def error_response(ctx: RequestContext, request: OffsetCommitRequest, error: KafkaError) -> OffsetCommitResponse:
    """The error for every partition that the coordinator was asked about."""
    offsets, refused = _split(ctx, request)
    return _response(_merged(request, refused, [(offset, error.code) for offset in offsets]))
