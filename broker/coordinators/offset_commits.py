"""The common part of OffsetCommit and TxnOffsetCommit: the question to the coordinator, and the order of the answer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache
from itertools import starmap
from typing import Any, Protocol, TypeVar
from uuid import UUID

from kio.schema.errors import ErrorCode

from coordinator.group.offsets.offsets import OffsetToCommit
from metadata.topics import TopicsImage
from protocol.durations import ZERO
from protocol.errors import GroupAuthorization, KafkaError, TopicAuthorization, TransactionalIdAuthorization
from protocol.schema import maker

R = TypeVar("R")

Topic = tuple[str, UUID | None]
"""As it is named in the request: the other one of name and id is empty."""

Answered = Sequence[tuple[Topic, Sequence[tuple[int, ErrorCode]]]]
"""Topics with an error code for each partition, in the order of the answer."""

Refused = dict[Topic, list[tuple[int, ErrorCode]]]


class RequestPartition(Protocol):
    """A partition of either request."""

    @property
    def partition_index(self) -> int: ...
    @property
    def committed_offset(self) -> int: ...
    @property
    def committed_leader_epoch(self) -> int: ...
    @property
    def committed_metadata(self) -> str | None: ...


class RequestTopic(Protocol):
    """A topic of either request."""

    @property
    def name(self) -> str: ...
    @property
    def topic_id(self) -> UUID | None: ...
    @property
    def partitions(self) -> Iterable[RequestPartition]: ...


def split(
    topics: TopicsImage, requested: Iterable[RequestTopic], *, by_id: bool = False
) -> tuple[list[OffsetToCommit], Refused]:
    """Separate what the coordinator is asked from the partitions that do not exist, about which it is not asked.

    `by_id`: the request names topics by their ids.
    """
    offsets: list[OffsetToCommit] = []
    refused: Refused = {}
    unknown = ErrorCode.unknown_topic_id if by_id else ErrorCode.unknown_topic_or_partition
    for topic in requested:
        topic_id = topic.topic_id if by_id else None
        known = topics.by_id(topic_id) if by_id else topics.get(topic.name)
        if known is None:
            refused.setdefault((topic.name, topic_id), [])  # answered even without partitions
        count = 0 if known is None else known.partition_count
        for partition in topic.partitions:
            index = partition.partition_index
            if known is not None and 0 <= index < count:
                offsets.append(
                    OffsetToCommit(
                        known.name,
                        index,
                        partition.committed_offset,
                        partition.committed_leader_epoch,
                        partition.committed_metadata,
                        known.id,
                    )
                )
            else:
                code = unknown if known is None else ErrorCode.unknown_topic_or_partition
                refused.setdefault((topic.name, topic_id), []).append((index, code))
    return offsets, refused


def failed(
    topics: TopicsImage, requested: Sequence[RequestTopic], error: KafkaError, *, by_id: bool = False
) -> Answered:
    """The answer with an error for every partition that the coordinator would have been asked about.

    A client without right gets it for all: it shall not learn which exist.
    """
    if isinstance(error, GroupAuthorization | TransactionalIdAuthorization | TopicAuthorization):
        return [
            ((topic.name, topic.topic_id), [(partition.partition_index, error.code) for partition in topic.partitions])
            for topic in requested
        ]
    offsets, refused = split(topics, requested, by_id=by_id)
    return answered(requested, refused, [(offset, error.code) for offset in offsets])


def answered(
    requested: Collection[RequestTopic], refused: Refused, codes: Iterable[tuple[OffsetToCommit, ErrorCode]]
) -> Answered:
    """The answer: refused partitions come first, as in Kafka, and a topic named twice is merged.

    If nothing was refused, the answer has the topics of the request, including repetitions.
    """
    if not refused:
        by_index = iter(codes)
        return [
            (
                (topic.name, topic.topic_id),
                [(partition.partition_index, next(by_index)[1]) for partition in topic.partitions],
            )
            for topic in requested
            if topic.partitions
        ]
    by_topic = {topic: list(partitions) for topic, partitions in refused.items()}
    named_by_id = {topic.topic_id for topic in requested}
    for offset, code in codes:
        topic: Topic = ("", offset.topic_id) if offset.topic_id in named_by_id else (offset.topic, None)
        by_topic.setdefault(topic, []).append((offset.partition, code))
    return list(by_topic.items())


def response_of(response: Callable[..., R], topic: type[Any], partition: type[Any]) -> Callable[[Answered], R]:
    """The function that makes responses of either API from the classes of their parts."""
    new_topic = maker(topic)

    @lru_cache(maxsize=1024)  # always the same few
    def new_partition(index: int, code: ErrorCode) -> Any:
        return partition(partition_index=index, error_code=code)

    def write(topics: Answered) -> R:
        return response(
            throttle_time=ZERO,
            topics=tuple(
                new_topic(name=name, topic_id=topic_id, partitions=tuple(starmap(new_partition, partitions)))
                for (name, topic_id), partitions in topics
            ),
        )

    return write
