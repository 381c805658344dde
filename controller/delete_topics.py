"""DeleteTopics (KIP-4, KIP-516; Kafka's `ControllerApis.deleteTopics`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from uuid import UUID

from kio.schema.delete_topics.v6 import DeleteTopicsRequest, DeleteTopicsResponse
from kio.schema.delete_topics.v6.response import DeletableTopicResult
from kio.schema.errors import ErrorCode

from controller.decision import Decision, MutationQuota, require_time_left
from metadata.image import MetadataImage
from metadata.topics import TopicImage, TopicsImage
from protocol.errors import (
    InvalidRequest,
    KafkaError,
    ThrottlingQuotaExceeded,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from protocol.metadata.topics import RemoveTopicRecord

ONCE = 1


def decide(image: MetadataImage, request: DeleteTopicsRequest, quota: MutationQuota) -> Decision[DeleteTopicsResponse]:
    """Results of refused entries come first, then those of the deleted topics. Raises Timeout."""
    ids = Counter(t.topic_id for t in request.topics if t.name is None and t.topic_id is not None)
    names = Counter(t.name for t in request.topics if t.name is not None and t.topic_id is None)
    if ONCE in (*ids.values(), *names.values()):
        require_time_left(request.timeout)
    found, refused = _find(image.topics, ids, names)
    results, deleted = [*_malformed(request), *refused], []
    for topic in found:
        try:
            quota.charge(topic.name, topic.partition_count)
        except ThrottlingQuotaExceeded as error:
            results.append(DeletableTopicResult(name=topic.name, topic_id=topic.id, error_code=error.code))
        else:
            deleted.append(topic)
    results += [
        DeletableTopicResult(name=topic.name, topic_id=topic.id, error_code=ErrorCode.none, error_message=None)
        for topic in deleted
    ]
    response = DeleteTopicsResponse(throttle_time=quota.throttle_time, responses=tuple(results))
    return Decision([RemoveTopicRecord(topic_id=topic.id) for topic in deleted], response)


def _find(
    topics: TopicsImage, ids: Counter[UUID], names: Counter[str]
) -> tuple[list[TopicImage], list[DeletableTopicResult]]:
    """The topics to delete, and what is refused: unknown ones, and those that the request has more than once."""
    found: dict[str, TopicImage] = {}
    refused: list[DeletableTopicResult] = []
    for topic_id, times in ids.items():
        topic = topics.by_id(topic_id)
        if times > 1:
            refused.append(failed(None, topic_id, InvalidRequest("Duplicate topic id.")))
        elif topic is None:
            refused.append(failed(None, topic_id, UnknownTopicId()))
        else:
            found[topic.name] = topic
    for name, times in names.items():
        topic = topics.get(name)
        if times > 1:
            refused.append(failed(name, None, InvalidRequest("Duplicate topic name.")))
        elif topic is None:
            refused.append(failed(name, None, UnknownTopicOrPartition()))
        elif topic.id in ids:
            found.pop(name, None)
            error = InvalidRequest("The request names this topic by its id, too; name it once.")
            refused.append(failed(name, topic.id, error))
        else:
            found[name] = topic
    return list(found.values()), refused


def _malformed(request: DeleteTopicsRequest) -> Iterator[DeletableTopicResult]:
    for topic in request.topics:
        if topic.name is None and topic.topic_id is None:
            yield failed(None, None, InvalidRequest("Neither topic name nor id were specified."))
        elif topic.name is not None and topic.topic_id is not None:
            error = InvalidRequest("You may not specify both topic name and topic id.")
            yield failed(topic.name, topic.topic_id, error)


def failed(name: str | None, topic_id: UUID | None, error: KafkaError) -> DeletableTopicResult:
    """The result of an entry that is refused."""
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=error.code, error_message=error.message)
