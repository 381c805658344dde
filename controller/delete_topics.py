"""DeleteTopics (KIP-4, KIP-516; Kafka's `ControllerApis.deleteTopics`)."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from typing import Any
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


MOST_IN_A_STEP = 100
"""The most partitions that one decision deletes, as long as a topic has no more: their files are closed and their
folders renamed when it is published, in one turn of the loop."""


class TopicDeletion:
    """The deletion of the topics of one request, in steps. Raises Timeout."""

    def __init__(self, request: DeleteTopicsRequest, quota: MutationQuota) -> None:
        self._request = request
        self._quota = quota
        self._ids = Counter(t.topic_id for t in request.topics if t.name is None and t.topic_id is not None)
        self._names = Counter(t.name for t in request.topics if t.name is not None and t.topic_id is None)
        if ONCE in (*self._ids.values(), *self._names.values()):
            require_time_left(request.timeout)
        self._left: deque[TopicImage] | None = None
        self._refused: list[DeletableTopicResult] = [*_malformed(request)]
        self._deleted: list[DeletableTopicResult] = []

    def step(self, image: MetadataImage) -> Decision[bool]:
        """Delete some of the topics; the response is whether others are left. What is gone meanwhile was deleted."""
        if self._left is None:
            found, refused = _find(image.topics, self._ids, self._names)
            self._left = deque(found)
            self._refused += refused
        records = []
        partitions = 0
        while self._left and partitions < MOST_IN_A_STEP:
            topic = self._left.popleft()
            try:
                self._quota.charge(topic.name, topic.partition_count)
            except ThrottlingQuotaExceeded as error:
                self._refused.append(DeletableTopicResult(name=topic.name, topic_id=topic.id, error_code=error.code))
                continue
            if topic.id in image.topics.names:
                records.append(RemoveTopicRecord(topic_id=topic.id))
            self._deleted.append(
                DeletableTopicResult(name=topic.name, topic_id=topic.id, error_code=ErrorCode.none, error_message=None)
            )
            partitions += topic.partition_count
        return Decision(records, bool(self._left))

    @property
    def response(self) -> DeleteTopicsResponse:
        """The answer, once nothing is left: results of refused entries come first, then those of deleted topics."""
        return DeleteTopicsResponse(throttle_time=self._quota.throttle_time, responses=(*self._refused, *self._deleted))


def decide(image: MetadataImage, request: DeleteTopicsRequest, quota: MutationQuota) -> Decision[DeleteTopicsResponse]:
    """All steps of a deletion at once, for few topics. Raises what the deletion does."""
    deletion = TopicDeletion(request, quota)
    records: list[Any] = []
    is_unfinished = True
    while is_unfinished:
        step = deletion.step(image)
        records += step.records
        is_unfinished = step.response
    return Decision(records, deletion.response)


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
