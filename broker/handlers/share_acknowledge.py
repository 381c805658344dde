"""ShareAcknowledge 1-2 (KIP-932, KIP-1222; Kafka's `KafkaApis.handleShareAcknowledgeRequest`)."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.share_acknowledge.v2 import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from kio.schema.share_acknowledge.v2.response import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeTopicResponse,
)

from broker.handlers.leader_hints import endpoints_of, leader_to_ask
from broker.handlers.share_acknowledging import FIRST_VERSION_WITH_RENEWAL, acknowledge
from broker.handlers.share_requests import group_and_member, require_share_groups
from broker.request_context import RequestContext
from broker.share.sessions import FINAL_EPOCH, FULL_EPOCH
from protocol.durations import MILLISECOND, ZERO
from protocol.errors import InvalidShareSessionEpoch, KafkaError
from protocol.produce_fetch.parts import LeaderIdAndEpoch as LeaderOf
from protocol.uuids import ZERO as NO_TOPIC

NO_LEADER = LeaderOf(0, 0)
Place = tuple[UUID, int]


async def share_acknowledge(ctx: RequestContext, request: ShareAcknowledgeRequest) -> ShareAcknowledgeResponse:
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
    leaders = {place: leader_to_ask(ctx.image, place, error) for place, error in results.items()}
    named = [leader for leader in leaders.values() if leader is not None]
    lock_ms = shares.settings.of(group_id).rules.lock_ms
    return ShareAcknowledgeResponse(
        throttle_time=ZERO,
        error_code=ErrorCode.none,
        error_message=None,
        acquisition_lock_timeout=int(lock_ms) * MILLISECOND,
        responses=tuple(
            ShareAcknowledgeTopicResponse(topic_id=topic_id, partitions=tuple(partitions))
            for topic_id, partitions in _by_topic(results, leaders).items()
        ),
        node_endpoints=tuple(
            NodeEndpoint(node_id=one.node_id, host=one.host, port=one.port, rack=one.rack)
            for one in endpoints_of(ctx.image, named, ctx.connection.listener_name)
        ),
    )


def _by_topic(
    results: Mapping[Place, KafkaError | None], leaders: Mapping[Place, LeaderOf | None]
) -> dict[UUID, list[PartitionData]]:
    found: dict[UUID, list[PartitionData]] = {}
    for place, error in results.items():
        leader = leaders[place] or NO_LEADER
        found.setdefault(place[0], []).append(
            PartitionData(
                partition_index=place[1],
                error_code=ErrorCode.none if error is None else error.code,
                error_message=None if error is None else error.explicit_message,
                current_leader=LeaderIdAndEpoch(leader_id=leader.leader_id, leader_epoch=leader.leader_epoch),
            )
        )
    return found
