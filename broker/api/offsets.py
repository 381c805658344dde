"""Committed offsets: OffsetCommit 2-10, OffsetFetch 1-10, OffsetDelete 0 (KIP-447, KIP-496, KIP-709, KIP-848).

Kafka's `KafkaApis.handleOffsetCommitRequest`, `handleOffsetFetch` and `handleOffsetDelete`. Unknown partitions of a
commit are refused before the group coordinator is asked about the others; they come first in the answer, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.offset_commit.v10.response import OffsetCommitResponsePartition
from kio.schema.offset_delete.v0 import OffsetDeleteRequest, OffsetDeleteResponse
from kio.schema.offset_delete.v0.response import OffsetDeleteResponsePartition, OffsetDeleteResponseTopic
from kio.schema.offset_fetch.v10.response import OffsetFetchResponsePartitions

from broker.coordinators.offset_commits import Refused, answered, failed, response_of, split
from broker.network.answers import when_all_settled, when_done
from broker.network.ports import Handler
from broker.request_context import RequestContext
from coordinator.group.group_coordinator_shard import GroupCoordinatorShard
from coordinator.group.offsets.offsets import Commit, Fetched, OffsetToCommit
from coordinator.group.offsets.store import CommittedOffset
from metadata.acls import AclOperation, ResourceType
from protocol.durations import MILLISECOND, ZERO
from protocol.errors import GroupAuthorization, InvalidGroupId, KafkaError
from protocol.newer.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponseTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponseTopics,
)
from protocol.schema import maker
from protocol.topic_partition import PartitionKey, by_topic

LAST_VERSION_WITH_RETENTION = 4
FIRST_VERSION_WITH_MEMBER_EPOCHS = 9
FIRST_VERSION_WITH_TOPIC_IDS_OF_OFFSET_COMMIT = 10
BROKERS_RETENTION = timedelta(milliseconds=-1)

_commit_response = response_of(maker(OffsetCommitResponse), OffsetCommitResponseTopic, OffsetCommitResponsePartition)


def _offset_commit(
    ctx: RequestContext, request: OffsetCommitRequest
) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    offsets, refused = _split(ctx, request)
    if not offsets:
        return _commit_response(answered(request.topics, refused, ()))
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
        answer, lambda codes: _commit_response(answered(request.topics, refused, zip(offsets, codes, strict=True)))
    )


def _split(ctx: RequestContext, request: OffsetCommitRequest) -> tuple[list[OffsetToCommit], Refused]:
    return split(ctx.image.topics, request.topics, by_id=ctx.version >= FIRST_VERSION_WITH_TOPIC_IDS_OF_OFFSET_COMMIT)


def _retention_ms(ctx: RequestContext) -> int | None:
    if ctx.version > LAST_VERSION_WITH_RETENTION or ctx.raw.retention_time == BROKERS_RETENTION:
        return None
    retention: timedelta = ctx.raw.retention_time
    return retention // MILLISECOND


def _failed_as_a_whole(ctx: RequestContext, request: OffsetCommitRequest, error: KafkaError) -> OffsetCommitResponse:
    return _commit_response(
        failed(
            ctx.image.topics, request.topics, error, by_id=ctx.version >= FIRST_VERSION_WITH_TOPIC_IDS_OF_OFFSET_COMMIT
        )
    )


offset_commit = Handler(_offset_commit, failed=_failed_as_a_whole)


DESCRIBE = AclOperation.DESCRIBE

FIRST_BATCHED_VERSION = 8
FIRST_VERSION_WITH_TOPIC_IDS_OF_OFFSET_FETCH = 10
FIRST_VERSION_WITH_GROUP_ERROR = 2
NO_OFFSET = -1


@dataclass(frozen=True, slots=True)
class OneGroup:
    """The response of versions 1-7."""

    throttle_time: timedelta
    topics: Sequence[OffsetFetchResponseTopics]
    error_code: ErrorCode


Answer = OffsetFetchResponse | OneGroup

new_partition = maker(OffsetFetchResponsePartitions)
new_topic = maker(OffsetFetchResponseTopics)
new_group = maker(OffsetFetchResponseGroup)
new_response = maker(OffsetFetchResponse)


def offset_fetch(ctx: RequestContext, request: OffsetFetchRequest) -> Answer | Awaitable[Answer]:
    groups = _groups(ctx, request)
    coordinator = ctx.coordinators.groups
    allowed = [group for group in groups if ctx.allows(DESCRIBE, ResourceType.GROUP, group.group_id)]
    answers = [coordinator.read(group.group_id, _fetching(ctx, group, request.require_stable)) for group in allowed]

    def answer(found: Sequence[Fetched | KafkaError]) -> Answer:
        answered = iter([_group(ctx, *pair) for pair in zip(allowed, found, strict=True)])
        if len(allowed) == len(groups):
            return _answer(ctx, list(answered))
        may = {id(group) for group in allowed}
        return _answer(
            ctx, [next(answered) if id(one) in may else _group(ctx, one, GroupAuthorization()) for one in groups]
        )

    return when_all_settled(answers, answer)


def _groups(ctx: RequestContext, request: OffsetFetchRequest) -> Sequence[Any]:
    """The requested groups. Before version 8 there is one, whose fields are those of the request."""
    return request.groups if ctx.version >= FIRST_BATCHED_VERSION else (ctx.raw,)


def _fetching(
    ctx: RequestContext, asked: OffsetFetchRequestGroup, require_stable: bool
) -> Callable[[GroupCoordinatorShard], Fetched]:
    member_id = getattr(asked, "member_id", None)
    member_epoch = getattr(asked, "member_epoch", -1)
    keys = _keys(ctx, asked)
    return lambda state: state.offsets.fetch(asked.group_id, keys, require_stable, member_id, member_epoch)


def _keys(ctx: RequestContext, group: OffsetFetchRequestGroup) -> list[PartitionKey] | None:
    if group.topics is None:
        return None
    named = [(_name(ctx, topic), topic) for topic in group.topics]
    return [(name, index) for name, topic in named if name is not None for index in topic.partition_indexes]


def _name(ctx: RequestContext, topic: Any) -> str | None:
    """The topic's name; None for an id that no topic has."""
    if ctx.version < FIRST_VERSION_WITH_TOPIC_IDS_OF_OFFSET_FETCH:
        return str(topic.name)
    known = ctx.image.topics.by_id(topic.topic_id)
    return None if known is None else known.name


def _group(
    ctx: RequestContext, asked: OffsetFetchRequestGroup, found: Fetched | KafkaError
) -> OffsetFetchResponseGroup:
    if isinstance(found, KafkaError):
        topics = _all_failed(asked, found.code) if ctx.version < FIRST_VERSION_WITH_GROUP_ERROR else ()
        return new_group(group_id=asked.group_id, topics=topics, error_code=found.code)
    if asked.topics is None:
        topics = tuple(_every_topic(ctx, found))
    else:
        topics = tuple(_fetched_topic(ctx, found, topic) for topic in asked.topics)
    return new_group(group_id=asked.group_id, topics=topics, error_code=ErrorCode.none)


def _every_topic(ctx: RequestContext, found: Fetched) -> Iterator[OffsetFetchResponseTopics]:
    """The topics with offsets that the client may see; where they are named by id, without those that are deleted."""
    by_id = ctx.version >= FIRST_VERSION_WITH_TOPIC_IDS_OF_OFFSET_FETCH
    for name, indexes in by_topic(found.offsets).items():
        known = ctx.image.topics.get(name) if by_id else None
        if (known is not None or not by_id) and _may_see(ctx, name):
            partitions = tuple(_fetched_partition(found, name, index) for index in indexes)
            yield new_topic(name=name, topic_id=None if known is None else known.id, partitions=partitions)


def _fetched_topic(ctx: RequestContext, found: Fetched, asked: Any) -> OffsetFetchResponseTopics:
    name = _name(ctx, asked)
    if name is None:
        partitions = [_without_offset(index, ErrorCode.unknown_topic_id) for index in asked.partition_indexes]
    elif _may_see(ctx, name):
        partitions = [_fetched_partition(found, name, index) for index in asked.partition_indexes]
    else:
        partitions = [_without_offset(index, ErrorCode.topic_authorization_failed) for index in asked.partition_indexes]
    by_id = ctx.version >= FIRST_VERSION_WITH_TOPIC_IDS_OF_OFFSET_FETCH
    topic_id = asked.topic_id if by_id else None
    return new_topic(name="" if by_id or name is None else name, topic_id=topic_id, partitions=tuple(partitions))


def _may_see(ctx: RequestContext, topic: str) -> bool:
    return ctx.allows(DESCRIBE, ResourceType.TOPIC, topic)


def _fetched_partition(found: Fetched, topic: str, index: int) -> OffsetFetchResponsePartitions:
    key = (topic, index)
    if key in found.unstable:
        return _without_offset(index, ErrorCode.unstable_offset_commit)
    committed: CommittedOffset | None = found.offsets.get(key)
    if committed is None:
        return _without_offset(index, ErrorCode.none)
    value = committed.value
    return new_partition(
        partition_index=index,
        committed_offset=value.offset,
        committed_leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        error_code=ErrorCode.none,
    )


def _without_offset(index: int, code: ErrorCode) -> OffsetFetchResponsePartitions:
    return new_partition(
        partition_index=index, committed_offset=NO_OFFSET, committed_leader_epoch=-1, metadata="", error_code=code
    )


def _all_failed(asked: OffsetFetchRequestGroup, code: ErrorCode) -> tuple[OffsetFetchResponseTopics, ...]:
    return tuple(
        new_topic(
            name=topic.name,
            topic_id=None,
            partitions=tuple(_without_offset(index, code) for index in topic.partition_indexes),
        )
        for topic in asked.topics or ()
    )


def _answer(ctx: RequestContext, groups: list[OffsetFetchResponseGroup]) -> Answer:
    if ctx.version >= FIRST_BATCHED_VERSION:
        return new_response(throttle_time=ZERO, groups=tuple(groups))
    return OneGroup(ZERO, groups[0].topics, groups[0].error_code)


UNKNOWN = ErrorCode.unknown_topic_or_partition


def offset_delete(
    ctx: RequestContext, request: OffsetDeleteRequest
) -> OffsetDeleteResponse | Awaitable[OffsetDeleteResponse]:
    if not request.group_id:
        raise InvalidGroupId
    known: dict[str, list[int]] = {}
    unknown: dict[str, list[int]] = {}
    for topic in request.topics:
        found = ctx.image.topics.get(topic.name)
        if found is None:
            unknown.setdefault(topic.name, [])  # answered even without partitions
        count = 0 if found is None else len(found.partitions)
        for asked in topic.partitions:
            index = asked.partition_index
            (known if 0 <= index < count else unknown).setdefault(topic.name, []).append(index)
    answer = ctx.coordinators.groups.write(
        request.group_id, lambda state: state.offsets.delete(request.group_id, known)
    )
    return when_done(answer, lambda codes: _deleted_response(request, known, unknown, codes))


def _deleted_response(
    request: OffsetDeleteRequest,
    known: Mapping[str, list[int]],
    unknown: Mapping[str, list[int]],
    codes: Mapping[PartitionKey, ErrorCode],
) -> OffsetDeleteResponse:
    if unknown:
        topics = [
            _deleted_topic(name, unknown.get(name, ()), [(index, codes[name, index]) for index in known.get(name, ())])
            for name in {**unknown, **known}
        ]
    else:
        topics = [
            _deleted_topic(
                topic.name,
                (),
                [
                    (partition.partition_index, codes[topic.name, partition.partition_index])
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
            if topic.partitions
        ]
    return OffsetDeleteResponse(error_code=ErrorCode.none, throttle_time=ZERO, topics=tuple(topics))


def _deleted_topic(
    name: str, unknown: Iterable[int], answered: Iterable[tuple[int, ErrorCode]]
) -> OffsetDeleteResponseTopic:
    return OffsetDeleteResponseTopic(
        name=name,
        partitions=(
            *(_deleted_partition(index, UNKNOWN) for index in unknown),
            *(_deleted_partition(index, code) for index, code in answered),
        ),
    )


def _deleted_partition(index: int, code: ErrorCode) -> OffsetDeleteResponsePartition:
    return OffsetDeleteResponsePartition(partition_index=index, error_code=code)
