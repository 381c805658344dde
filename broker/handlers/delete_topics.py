"""DeleteTopics 1-6 (KIP-4, KIP-516; Kafka's `ControllerApis.deleteTopics`). Kafka shuffles its results; here those
of refused entries come first, then those of the deleted topics.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING
from uuid import UUID

from kio.schema.delete_topics.v6 import DeleteTopicsRequest, DeleteTopicsResponse
from kio.schema.delete_topics.v6.response import DeletableTopicResult
from kio.schema.errors import ErrorCode

from broker.metadata.store import retrying
from broker.metadata.topic_planning import require_time_left
from broker.metadata.topics import Topic, Topics
from broker.network.context import RequestContext
from protocol.durations import ZERO
from protocol.errors import (
    InvalidRequest,
    KafkaError,
    ThrottlingQuotaExceeded,
    TopicDeletionDisabled,
    UnknownTopicId,
    UnknownTopicOrPartition,
)

if TYPE_CHECKING:
    from broker.quotas.mutations import MutationQuota

FIRST_VERSION_THAT_KNOWS_DISABLED = 3
FIRST_VERSION_THAT_KNOWS_QUOTAS = 5
ONCE = 1


async def handle(ctx: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    if not ctx.node.config.boolean("delete.topic.enable"):
        if ctx.version < FIRST_VERSION_THAT_KNOWS_DISABLED:
            raise InvalidRequest("Topic deletion is disabled.")
        raise TopicDeletionDisabled
    quota = ctx.node.throttling.mutations(ctx, strict=ctx.version >= FIRST_VERSION_THAT_KNOWS_QUOTAS)
    return await retrying(lambda: _delete(ctx.node.topics, request, quota))


async def _delete(topics: Topics, request: DeleteTopicsRequest, quota: MutationQuota) -> DeleteTopicsResponse:
    ids, names = _ids(request), _names(request)
    if ONCE in (*ids.values(), *names.values()):
        require_time_left(request.timeout)
    found, refused = _find(topics, ids, names)
    results = [*_malformed(request), *refused]
    deleted: list[Topic] = []
    for topic in found:
        try:
            quota.charge(topic.name, len(topic.partitions))
        except ThrottlingQuotaExceeded as error:
            results.append(DeletableTopicResult(name=topic.name, topic_id=topic.id, error_code=error.code))
        else:
            deleted.append(topic)
    await topics.delete(deleted)
    results += [
        DeletableTopicResult(name=topic.name, topic_id=topic.id, error_code=ErrorCode.none, error_message=None)
        for topic in deleted
    ]
    return DeleteTopicsResponse(throttle_time=quota.throttle_time, responses=tuple(results))


def _find(
    topics: Topics, ids: Counter[UUID], names: Counter[str]
) -> tuple[Collection[Topic], list[DeletableTopicResult]]:
    """The topics to delete, and what is refused: unknown ones, and those that the request has more than once."""
    found: dict[str, Topic] = {}
    refused: list[DeletableTopicResult] = []
    for topic_id, times in ids.items():
        topic = topics.by_id(topic_id)
        if times > 1:
            refused.append(_failed(None, topic_id, InvalidRequest("Duplicate topic id.")))
        elif topic is None:
            refused.append(_failed(None, topic_id, UnknownTopicId()))
        else:
            found[topic.name] = topic
    for name, times in names.items():
        topic = topics.get(name)
        if times > 1:
            refused.append(_failed(name, None, InvalidRequest("Duplicate topic name.")))
        elif topic is None:
            refused.append(_failed(name, None, UnknownTopicOrPartition()))
        elif topic.id in ids:
            found.pop(name, None)
            error = InvalidRequest("The provided topic name maps to an ID that was already supplied.")
            refused.append(_failed(name, topic.id, error))
        else:
            found[name] = topic
    return found.values(), refused


def _malformed(request: DeleteTopicsRequest) -> Iterator[DeletableTopicResult]:
    for topic in request.topics:
        if topic.name is None and topic.topic_id is None:
            yield _failed(None, None, InvalidRequest("Neither topic name nor id were specified."))
        elif topic.name is not None and topic.topic_id is not None:
            error = InvalidRequest("You may not specify both topic name and topic id.")
            yield _failed(topic.name, topic.topic_id, error)


def _ids(request: DeleteTopicsRequest) -> Counter[UUID]:
    return Counter(t.topic_id for t in request.topics if t.name is None and t.topic_id is not None)


def _names(request: DeleteTopicsRequest) -> Counter[str]:
    return Counter(t.name for t in request.topics if t.name is not None and t.topic_id is None)


def _failed(name: str | None, topic_id: UUID | None, error: KafkaError) -> DeletableTopicResult:
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=error.code, error_message=error.message)


def error_response(ctx: RequestContext, request: DeleteTopicsRequest, error: KafkaError) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(
        throttle_time=ZERO,
        responses=tuple(
            DeletableTopicResult(
                name=topic.name,
                topic_id=topic.topic_id,
                error_code=error.code,
                error_message=error.explicit_message,
            )
            for topic in request.topics
        ),
    )
