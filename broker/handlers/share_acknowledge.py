"""ShareAcknowledge 1-2 (KIP-932, KIP-1222; Kafka's `KafkaApis.handleShareAcknowledgeRequest`)."""

from __future__ import annotations

from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.share_acknowledge.v2 import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from kio.schema.share_acknowledge.v2.response import (
    LeaderIdAndEpoch,
    PartitionData,
    ShareAcknowledgeTopicResponse,
)

from broker.handlers.share_acknowledging import FIRST_VERSION_WITH_RENEWAL, acknowledge
from broker.handlers.share_requests import group_and_member, require_share_groups
from broker.request_context import RequestContext
from broker.share.sessions import FINAL_EPOCH, FULL_EPOCH
from protocol.durations import MILLISECOND, ZERO
from protocol.errors import InvalidShareSessionEpoch, KafkaError
from protocol.uuids import ZERO as NO_TOPIC

NO_LEADER = LeaderIdAndEpoch(leader_id=0, leader_epoch=0)


async def handle(ctx: RequestContext, request: ShareAcknowledgeRequest) -> ShareAcknowledgeResponse:
    """A final request ends the session, after its acknowledgements."""
    require_share_groups(ctx)
    group_id, member_id = group_and_member(request)
    shares = ctx.local.share
    epoch = request.share_session_epoch
    if epoch == FULL_EPOCH:
        raise InvalidShareSessionEpoch
    session = shares.sessions.close((group_id, member_id)) if epoch == FINAL_EPOCH else None
    if session is None:
        shares.sessions.use((group_id, member_id), epoch)
    batches = {
        (topic.topic_id or NO_TOPIC, partition.partition_index): partition.acknowledgement_batches
        for topic in request.topics
        for partition in topic.partitions
        if partition.acknowledgement_batches
    }
    renews = ctx.version >= FIRST_VERSION_WITH_RENEWAL and request.is_renew_ack
    try:
        results = await acknowledge(ctx, group_id, member_id, batches, renews=renews)
    finally:
        if session is not None:
            shares.end_session(session)
    lock_ms = shares.settings.of(group_id).rules.lock_ms
    return ShareAcknowledgeResponse(
        throttle_time=ZERO,
        error_code=ErrorCode.none,
        error_message=None,
        acquisition_lock_timeout=int(lock_ms) * MILLISECOND,
        responses=tuple(
            ShareAcknowledgeTopicResponse(topic_id=topic_id, partitions=tuple(partitions))
            for topic_id, partitions in _by_topic(results).items()
        ),
        node_endpoints=(),
    )


def _by_topic(results: dict[tuple[UUID, int], KafkaError | None]) -> dict[UUID, list[PartitionData]]:
    found: dict[UUID, list[PartitionData]] = {}
    for (topic_id, index), error in results.items():
        found.setdefault(topic_id, []).append(
            PartitionData(
                partition_index=index,
                error_code=ErrorCode.none if error is None else error.code,
                error_message=None if error is None else error.explicit_message,
                current_leader=NO_LEADER,
            )
        )
    return found


def error_response(
    ctx: RequestContext, request: ShareAcknowledgeRequest, error: KafkaError
) -> ShareAcknowledgeResponse:
    return ShareAcknowledgeResponse(
        throttle_time=ZERO,
        error_code=error.code,
        error_message=error.explicit_message,
        acquisition_lock_timeout=ZERO,
        responses=(),
        node_endpoints=(),
    )
