"""OffsetFetch 1-10 (KIP-447, KIP-709, KIP-848; Kafka's `KafkaApis.handleOffsetFetch`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.offset_fetch.v10.response import OffsetFetchResponsePartitions

from broker.network.answers import when_all_settled
from broker.request_context import RequestContext
from coordinator.group.group_coordinator_shard import GroupCoordinatorShard
from coordinator.group.offsets.offsets import Fetched
from coordinator.group.offsets.store import CommittedOffset
from metadata.acls import AclOperation, ResourceType
from protocol.durations import ZERO
from protocol.entities import maker
from protocol.errors import GroupAuthorization, KafkaError
from protocol.newer.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponseTopics,
)
from protocol.topic_partition import PartitionKey, by_topic

DESCRIBE = AclOperation.DESCRIBE

FIRST_BATCHED_VERSION = 8
FIRST_VERSION_WITH_TOPIC_IDS = 10
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
    if ctx.version < FIRST_VERSION_WITH_TOPIC_IDS:
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
        topics = tuple(_topic(ctx, found, topic) for topic in asked.topics)
    return new_group(group_id=asked.group_id, topics=topics, error_code=ErrorCode.none)


def _every_topic(ctx: RequestContext, found: Fetched) -> Iterator[OffsetFetchResponseTopics]:
    """The topics with offsets that the client may see; where they are named by id, without those that are deleted."""
    by_id = ctx.version >= FIRST_VERSION_WITH_TOPIC_IDS
    for name, indexes in by_topic(found.offsets).items():
        known = ctx.image.topics.get(name) if by_id else None
        if (known is not None or not by_id) and _may_see(ctx, name):
            partitions = tuple(_partition(found, name, index) for index in indexes)
            yield new_topic(name=name, topic_id=None if known is None else known.id, partitions=partitions)


def _topic(ctx: RequestContext, found: Fetched, asked: Any) -> OffsetFetchResponseTopics:
    name = _name(ctx, asked)
    if name is None:
        partitions = [_without_offset(index, ErrorCode.unknown_topic_id) for index in asked.partition_indexes]
    elif _may_see(ctx, name):
        partitions = [_partition(found, name, index) for index in asked.partition_indexes]
    else:
        partitions = [_without_offset(index, ErrorCode.topic_authorization_failed) for index in asked.partition_indexes]
    by_id = ctx.version >= FIRST_VERSION_WITH_TOPIC_IDS
    topic_id = asked.topic_id if by_id else None
    return new_topic(name="" if by_id or name is None else name, topic_id=topic_id, partitions=tuple(partitions))


def _may_see(ctx: RequestContext, topic: str) -> bool:
    return ctx.allows(DESCRIBE, ResourceType.TOPIC, topic)


def _partition(found: Fetched, topic: str, index: int) -> OffsetFetchResponsePartitions:
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
