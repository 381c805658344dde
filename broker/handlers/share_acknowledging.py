"""The acknowledgements of a ShareFetch or ShareAcknowledge request (Kafka's `SharePartitionManager.acknowledge`)."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol
from uuid import UUID

from broker.request_context import RequestContext
from broker.share.runs import AcknowledgeType
from broker.share.share_partition import Ranges
from metadata.acls import AclOperation, ResourceType
from protocol.coordinator_records.share_records import SharePartitionKey
from protocol.errors import (
    InvalidRecordState,
    InvalidRequest,
    KafkaError,
    TopicAuthorization,
    UnknownTopicId,
    UnknownTopicOrPartition,
)

FIRST_VERSION_WITH_RENEWAL = 2

Place = tuple[UUID, int]


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
    """What came of the acknowledgements of each partition: None once they are durable."""
    shares = ctx.local.share
    answers: dict[Place, Future[None] | KafkaError] = {}
    for place, ranges in batches.items():
        topic_id, index = place
        try:
            known = ctx.image.topics.by_id(topic_id)
            if known is None:
                raise UnknownTopicId
            checked = _ranges(ranges, renews)
            if not ctx.allows(AclOperation.READ, ResourceType.TOPIC, known.name):
                raise TopicAuthorization
            share = shares.get(SharePartitionKey(group_id, topic_id, index))
            if index not in known.partitions:
                raise UnknownTopicOrPartition
            if share is None:
                raise UnknownTopicOrPartition("Nobody has fetched from this partition for the group.")
            may_renew = shares.settings.of(group_id).may_renew
            if not may_renew and any(AcknowledgeType.RENEW in types for _, _, types in checked):
                raise InvalidRecordState("Renewing is switched off for this group (share.renew.acknowledge.enable).")
            answers[place] = share.acknowledge(member_id, checked)
        except KafkaError as error:
            answers[place] = error
    return {place: await _settled(answer) for place, answer in answers.items()}


async def _settled(answer: Future[None] | KafkaError) -> KafkaError | None:
    if isinstance(answer, KafkaError):
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
        previous = first
    return found
