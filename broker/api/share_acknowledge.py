"""ShareAcknowledge 1-2, and the acknowledgements of a ShareFetch request (KIP-932, KIP-1222).

Kafka's `KafkaApis.handleShareAcknowledgeRequest` and `SharePartitionManager.acknowledge`.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.share_acknowledge.v2 import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from kio.schema.share_acknowledge.v2.response import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeTopicResponse,
)

from broker.api.leader_hints import endpoints_of, leader_to_ask
from broker.request_context import RequestContext
from broker.share.runs import AcknowledgeType
from broker.share.sessions import FINAL_EPOCH, FULL_EPOCH
from broker.share.share_partition import Ranges
from coordinator.group.share.heartbeat import LONGEST_MEMBER_ID
from metadata.acls import AclOperation, ResourceType
from protocol.coordinator_records.share_records import SharePartitionKey
from protocol.durations import MILLISECOND, ZERO
from protocol.errors import (
    InvalidRecordState,
    InvalidRequest,
    InvalidShareSessionEpoch,
    KafkaError,
    TopicAuthorization,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from protocol.produce_fetch.parts import LeaderIdAndEpoch as LeaderOf
from protocol.uuids import ZERO as NO_TOPIC

FIRST_VERSION_WITH_RENEWAL = 2

Place = tuple[UUID, int]
"""A topic's id and a partition."""


class ShareRequest(Protocol):
    """A request of a member to the leader of partitions."""

    @property
    def group_id(self) -> str | None: ...

    @property
    def member_id(self) -> str | None: ...


def group_and_member(request: ShareRequest) -> tuple[str, str]:
    """Both, which must be set; a member id has 1 to 36 characters. Raises InvalidRequest, without a text."""
    if request.group_id is None or request.member_id is None:
        raise InvalidRequest
    if not 0 < len(request.member_id) <= LONGEST_MEMBER_ID:
        raise InvalidRequest
    return request.group_id, request.member_id


class AcknowledgementBatch(Protocol):
    """A range of offsets, both inclusive; one type for all of it, or one for each offset."""

    @property
    def first_offset(self) -> int: ...

    @property
    def last_offset(self) -> int: ...

    @property
    def acknowledge_types(self) -> Sequence[int]: ...


async def acknowledge(
    ctx: RequestContext,
    group_id: str,
    member_id: str,
    batches: Mapping[Place, Sequence[AcknowledgementBatch]],
    *,
    renews: bool,
) -> dict[Place, KafkaError | None]:
    """What came of the acknowledgements of each partition: None once they are durable, or if there are none.

    As in Kafka, a partition without any is told of if it is not known, or if another one has some that are in order.
    """
    shares = ctx.local.share
    without: list[Place] = []
    answers: dict[Place, Future[None] | KafkaError | None] = {}
    in_order = False
    for place, ranges in batches.items():
        topic_id, index = place
        try:
            known = ctx.image.topics.by_id(topic_id)
            if known is None:
                raise UnknownTopicId
            checked = _ranges(ranges, renews)
            if not ctx.allows(AclOperation.READ, ResourceType.TOPIC, known.name):
                raise TopicAuthorization
            if index not in known.partitions:
                raise UnknownTopicOrPartition
            if not ranges:
                without.append(place)
                continue
            in_order = True
            share = shares.get(SharePartitionKey(group_id, topic_id, index))
            if share is None:
                raise UnknownTopicOrPartition("Nobody has fetched from this partition for the group.")
            may_renew = shares.settings.of(group_id).may_renew
            if not may_renew and any(AcknowledgeType.RENEW in types for _, _, types in checked):
                raise InvalidRecordState("Renewing is switched off for this group (share.renew.acknowledge.enable).")
            answers[place] = share.acknowledge(member_id, checked)
        except KafkaError as error:
            answers[place] = error
    if in_order:
        answers |= dict.fromkeys(without)
    return {place: await _settled(answer) for place, answer in answers.items()}


async def _settled(answer: Future[None] | KafkaError | None) -> KafkaError | None:
    if answer is None or isinstance(answer, KafkaError):
        return answer
    try:
        await answer
    except KafkaError as error:
        return error
    return None


def _ranges(batches: Iterable[AcknowledgementBatch], renews: bool) -> Ranges:
    """The ranges, checked: in order, with a type for all or for each offset. Raises InvalidRequest, without a text."""
    found: list[tuple[int, int, tuple[AcknowledgeType, ...]]] = []
    previous = -1
    for batch in batches:
        first, last, types = batch.first_offset, batch.last_offset, batch.acknowledge_types
        if first > last or first < previous:
            raise InvalidRequest
        if len(types) not in (1, last - first + 1):
            raise InvalidRequest
        try:
            kinds = tuple(map(AcknowledgeType, types))
        except ValueError as error:
            raise InvalidRequest from error
        if AcknowledgeType.RENEW in kinds and not renews:
            raise InvalidRequest
        found.append((first, last, kinds))
        previous = last
    return found


NO_LEADER = LeaderOf(0, 0)


async def share_acknowledge(ctx: RequestContext, request: ShareAcknowledgeRequest) -> ShareAcknowledgeResponse:
    """A final request ends the session, after its acknowledgements."""
    ctx.require("share.version")
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
