"""ShareFetch 1-2 (KIP-932, KIP-1206, KIP-1222; Kafka's `KafkaApis.handleShareFetchRequest`).

Nobody checks that the member belongs to the group: any member id may fetch from share partitions that have a state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.share_fetch.v2 import ShareFetchRequest, ShareFetchResponse
from kio.schema.share_fetch.v2.request import AcknowledgementBatch
from kio.schema.share_fetch.v2.response import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
)

from broker.api.leader_hints import endpoints_of, leader_to_ask
from broker.api.share_acknowledge import FIRST_VERSION_WITH_RENEWAL, acknowledge, group_and_member
from broker.api.share_fetching import Limits, ShareFetching, Taken
from broker.request_context import RequestContext
from broker.share.runs import Wish
from broker.share.sessions import FINAL_EPOCH, FULL_EPOCH
from protocol.durations import MILLISECOND, ZERO
from protocol.errors import InvalidRequest, KafkaError
from protocol.produce_fetch.parts import LeaderIdAndEpoch as LeaderOf
from protocol.uuids import ZERO as NO_TOPIC

BATCHES, RECORD_LIMIT = 0, 1
"""How much may be acquired at once: whole batches, or exactly so many records (KIP-1206)."""

NO_LEADER = LeaderIdAndEpoch(leader_id=0, leader_epoch=0)
Place = tuple[UUID, int]


async def share_fetch(ctx: RequestContext, request: ShareFetchRequest) -> ShareFetchResponse:
    """Acknowledgements come first. A final request fetches nothing: it ends the session."""
    ctx.require("share.version")
    group_id, member_id = key = group_and_member(request)
    wanted = {
        (topic.topic_id or NO_TOPIC, partition.partition_index): partition.acknowledgement_batches
        for topic in request.topics
        for partition in topic.partitions
    }
    batches = wanted if any(wanted.values()) else {}
    renews = ctx.version >= FIRST_VERSION_WITH_RENEWAL and request.is_renew_ack
    _check(request, batches, renews)
    shares, epoch = ctx.local.share, request.share_session_epoch
    if epoch == FINAL_EPOCH:
        session = shares.sessions.close(key)
        try:
            results = await acknowledge(ctx, group_id, member_id, batches, renews=renews)
        finally:
            shares.end_session(session)
        return _response(ctx, group_id, results, {}, set())
    if epoch == FULL_EPOCH:
        session = shares.sessions.open(key, ctx.connection)
        shares.sessions.change(session, _named(ctx, wanted), forgotten=())
    else:
        session = shares.sessions.use(key, epoch)
        shares.sessions.change(session, _named(ctx, wanted), _forgotten(request))
    if request.share_acquire_mode not in (BATCHES, RECORD_LIMIT):
        raise InvalidRequest
    results = await acknowledge(ctx, group_id, member_id, batches, renews=renews)
    fetching = ShareFetching(ctx, session, _limits(ctx, request))
    told, session.new = session.new & set(session), set()
    if request.max_records > 0 and request.max_bytes > 0 and not renews:
        taken = await fetching.run()
        session.rotate()
    else:
        taken, told = fetching.unknown(), set()
    return _response(ctx, group_id, results, taken, told)


def _named(ctx: RequestContext, places: Iterable[Place]) -> dict[Place, str | None]:
    topics = ctx.image.topics
    return {place: None if (topic := topics.by_id(place[0])) is None else topic.name for place in places}


def _forgotten(request: ShareFetchRequest) -> list[Place]:
    return [
        (topic.topic_id or NO_TOPIC, index) for topic in request.forgotten_topics_data for index in topic.partitions
    ]


def _check(request: ShareFetchRequest, batches: Mapping[Place, Sequence[AcknowledgementBatch]], renews: bool) -> None:
    """Raises InvalidRequest."""
    if request.share_session_epoch == FULL_EPOCH and batches:
        raise InvalidRequest  # the first request of a session acknowledges nothing
    fetches = request.max_wait or request.min_bytes or request.max_bytes or request.max_records
    if renews and fetches:
        raise InvalidRequest  # a request that renews acquisitions fetches nothing, and must say so


def _limits(ctx: RequestContext, request: ShareFetchRequest) -> Limits:
    max_bytes = min(request.max_bytes, ctx.local.config.integer("fetch.max.bytes"))
    return Limits(
        max_wait_ms=request.max_wait // MILLISECOND,
        min_bytes=min(request.min_bytes, max_bytes),
        max_bytes=max_bytes,
        wish=Wish(request.max_records, request.batch_size, exact=request.share_acquire_mode == RECORD_LIMIT),
    )


def _response(
    ctx: RequestContext,
    group_id: str,
    results: Mapping[Place, KafkaError | None],
    taken: Mapping[Place, Taken],
    told: set[Place],
) -> ShareFetchResponse:
    topics: dict[UUID, list[PartitionData]] = {}
    leaders: list[LeaderOf] = []
    for place in dict.fromkeys([*results, *taken, *sorted(told, key=str)]):
        found = taken.get(place, Taken())
        leader = leader_to_ask(ctx.image, place, found.error)
        leaders += [] if leader is None else [leader]
        topics.setdefault(place[0], []).append(_partition(place[1], results.get(place), found, leader))
    return ShareFetchResponse(
        throttle_time=ZERO,
        error_code=ErrorCode.none,
        error_message=None,
        acquisition_lock_timeout=int(ctx.local.share.settings.of(group_id).rules.lock_ms) * MILLISECOND,
        responses=tuple(
            ShareFetchableTopicResponse(topic_id=topic_id, partitions=tuple(partitions))
            for topic_id, partitions in topics.items()
        ),
        node_endpoints=_endpoints(ctx, leaders),
    )


def _partition(index: int, acknowledged: KafkaError | None, taken: Taken, leader: LeaderOf | None) -> PartitionData:
    error = taken.error
    return PartitionData(
        partition_index=index,
        error_code=ErrorCode.none if error is None else error.code,
        error_message=None,  # as in Kafka: only acknowledgements have texts
        acknowledge_error_code=0 if acknowledged is None else int(acknowledged.code),
        acknowledge_error_message=None if acknowledged is None else acknowledged.explicit_message,
        current_leader=NO_LEADER
        if leader is None
        else LeaderIdAndEpoch(leader_id=leader.leader_id, leader_epoch=leader.leader_epoch),
        records=bytes(taken.records),
        acquired_records=tuple(
            AcquiredRecords(first_offset=one.first, last_offset=one.last, delivery_count=one.delivery_count)
            for one in taken.acquired
        ),
    )


def _endpoints(ctx: RequestContext, leaders: Sequence[LeaderOf]) -> tuple[NodeEndpoint, ...]:
    found = endpoints_of(ctx.image, leaders, ctx.connection.listener_name)
    return tuple(NodeEndpoint(node_id=one.node_id, host=one.host, port=one.port, rack=one.rack) for one in found)
