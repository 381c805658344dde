"""OffsetCommit 2-10 (Kafka's `KafkaApis.handleOffsetCommitRequest`).

Unknown partitions are refused before the group coordinator is asked about the others; they come first in the answer,
as in Kafka.
"""

from __future__ import annotations

from collections.abc import Awaitable
from datetime import timedelta

from kio.schema.offset_commit.v10.response import OffsetCommitResponsePartition

from broker.coordinators.offset_commits import Refused, answered, failed, response_of, split
from broker.network.answers import when_done
from broker.network.handler import Handler
from broker.request_context import RequestContext
from coordinator.group.offsets.offsets import Commit, OffsetToCommit
from protocol.durations import MILLISECOND
from protocol.entities import maker
from protocol.errors import KafkaError
from protocol.newer.offset_commit import OffsetCommitRequest, OffsetCommitResponse, OffsetCommitResponseTopic

LAST_VERSION_WITH_RETENTION = 4
FIRST_VERSION_WITH_MEMBER_EPOCHS = 9
FIRST_VERSION_WITH_TOPIC_IDS = 10
BROKERS_RETENTION = timedelta(milliseconds=-1)

_response = response_of(maker(OffsetCommitResponse), OffsetCommitResponseTopic, OffsetCommitResponsePartition)


def _offset_commit(
    ctx: RequestContext, request: OffsetCommitRequest
) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    offsets, refused = _split(ctx, request)
    if not offsets:
        return _response(answered(request.topics, refused, ()))
    commit = Commit(
        group_id=request.group_id,
        offsets=offsets,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        generation=request.generation_id_or_member_epoch,
        retention_ms=_retention_ms(ctx),
        knows_member_epochs=ctx.version >= FIRST_VERSION_WITH_MEMBER_EPOCHS,
    )
    answer = ctx.coordinators.groups.write(request.group_id, lambda state: state.offsets.commit(commit))
    return when_done(
        answer, lambda codes: _response(answered(request.topics, refused, zip(offsets, codes, strict=True)))
    )


def _split(ctx: RequestContext, request: OffsetCommitRequest) -> tuple[list[OffsetToCommit], Refused]:
    return split(ctx.image.topics, request.topics, by_id=ctx.version >= FIRST_VERSION_WITH_TOPIC_IDS)


def _retention_ms(ctx: RequestContext) -> int | None:
    if ctx.version > LAST_VERSION_WITH_RETENTION or ctx.raw.retention_time == BROKERS_RETENTION:
        return None
    retention: timedelta = ctx.raw.retention_time
    return retention // MILLISECOND


def _failed_as_a_whole(ctx: RequestContext, request: OffsetCommitRequest, error: KafkaError) -> OffsetCommitResponse:
    return _response(failed(ctx.image.topics, request.topics, error, by_id=ctx.version >= FIRST_VERSION_WITH_TOPIC_IDS))


offset_commit = Handler(_offset_commit, failed=_failed_as_a_whole)
