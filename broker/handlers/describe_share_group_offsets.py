"""DescribeShareGroupOffsets 0-1 (KIP-932, KIP-1226; Kafka's `GroupCoordinatorService.describeShareGroupOffsets`).

An unknown group, topic or partition is no error: it has no start offset (-1).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from kio.schema.describe_share_group_offsets.v1 import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
)
from kio.schema.describe_share_group_offsets.v1.response import (
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from kio.schema.errors import ErrorCode

from broker.handlers.share_requests import require_share_groups
from broker.monitoring.group_metrics import EndsElsewhere
from broker.replicas.partition import Role
from broker.request_context import RequestContext
from coordinator.group.group_coordinator_shard import GroupCoordinatorShard
from metadata.acls import AclOperation, ResourceType
from protocol.coordinator_records.share_group_records import TopicPartitions
from protocol.coordinator_records.share_records import (
    NO_START_OFFSET,
    UNKNOWN_COUNT,
    SharePartitionKey,
    ShareSnapshotValue,
)
from protocol.durations import ZERO
from protocol.errors import (
    GroupAuthorization,
    KafkaError,
    LeaderNotAvailable,
    TopicAuthorization,
    UnknownServerError,
)
from protocol.topic_partition import PartitionKey
from protocol.uuids import ZERO as NO_TOPIC

UNKNOWN = -1


async def describe_share_group_offsets(
    ctx: RequestContext, request: DescribeShareGroupOffsetsRequest
) -> DescribeShareGroupOffsetsResponse:
    require_share_groups(ctx)
    groups = await asyncio.gather(*(_group(ctx, group) for group in request.groups))
    return DescribeShareGroupOffsetsResponse(throttle_time=ZERO, groups=tuple(groups))


async def _group(ctx: RequestContext, wanted: Any) -> DescribeShareGroupOffsetsResponseGroup:
    group_id = wanted.group_id
    try:
        if not ctx.allows(AclOperation.DESCRIBE, ResourceType.GROUP, group_id):
            raise GroupAuthorization
        known = await ctx.coordinators.groups.read(group_id, lambda state: _initialized(state, group_id))
        if wanted.topics is None:
            names = [(topic.name, sorted(topic.partitions)) for topic in known.values()]
            there = [one for one in names if ctx.image.topics.get(one[0]) is not None]
            asked = [one for one in there if ctx.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, one[0])]
        else:
            asked = [(topic.topic_name, topic.partitions) for topic in wanted.topics]
        _check(group_id, [indexes for name, indexes in asked if ctx.image.topics.get(name) is not None])
    except KafkaError as error:
        return _failed(group_id, error)
    wanted = {
        (name, index): SharePartitionKey(group_id, topic.id, index)
        for name, indexes in asked
        if (topic := ctx.image.topics.get(name)) is not None
        for index in {*indexes} & known.get(topic.id, TopicPartitions(name, frozenset())).partitions
        if ctx.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, name)
    }
    states = await ctx.local.share.states.summaries(wanted.values())
    has_lag = [key for key, one in wanted.items() if _has_lag(states[one])]
    ends = await _ends(ctx, has_lag)
    told = {key: _partition(key[1], states[one], ends.get(key)) for key, one in wanted.items()}
    topics = [_topic(ctx, told, name, indexes) for name, indexes in asked]
    return DescribeShareGroupOffsetsResponseGroup(
        group_id=group_id, topics=tuple(topics), error_code=ErrorCode.none, error_message=None
    )


def _check(group_id: str, asked: Sequence[Sequence[int]]) -> None:
    """`asked` are the partitions of each topic that there is; of others nothing is read. Raises UnknownServerError."""
    if asked and not group_id:
        raise UnknownServerError("The group id is empty.")
    if any(not indexes or min(indexes) < 0 for indexes in asked):
        raise UnknownServerError("Each topic must name partitions, none of them negative.")


def _initialized(state: GroupCoordinatorShard, group_id: str) -> Mapping[UUID, TopicPartitions]:
    group = state.groups.share.find(group_id)
    return {} if group is None else group.initialized()


async def _ends(ctx: RequestContext, keys: Sequence[PartitionKey]) -> dict[PartitionKey, int]:
    """The high watermarks, as the leaders have them; one that is not told is left out."""
    elsewhere = EndsElsewhere(ctx.local.node_id, ctx.cluster.cache, ctx.cluster.peers.reach)
    await elsewhere.ask(keys)
    here = [(key, ctx.replicas.get(*key)) for key in keys]
    led = {key: one.high_watermark for key, one in here if one is not None and one.role is Role.LEADER}
    return {**elsewhere.found, **led}


def _topic(
    ctx: RequestContext,
    told: Mapping[PartitionKey, DescribeShareGroupOffsetsResponsePartition],
    name: str,
    indexes: Sequence[int],
) -> DescribeShareGroupOffsetsResponseTopic:
    if not ctx.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, name):
        denied = tuple(_unknown(index, TopicAuthorization()) for index in indexes)
        return DescribeShareGroupOffsetsResponseTopic(topic_name=name, topic_id=NO_TOPIC, partitions=denied)
    topic = ctx.image.topics.get(name)
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=name,
        topic_id=NO_TOPIC if topic is None else topic.id,
        partitions=tuple(told.get((name, index)) or _unknown(index) for index in indexes),
    )


State = ShareSnapshotValue | KafkaError | None


def _has_lag(state: State) -> bool:
    if not isinstance(state, ShareSnapshotValue):
        return False
    return state.start_offset != NO_START_OFFSET and state.complete_count != UNKNOWN_COUNT


def _partition(index: int, state: State, end: int | None) -> DescribeShareGroupOffsetsResponsePartition:
    if state is None or isinstance(state, KafkaError):
        return _unknown(index, state)
    if state.start_offset == NO_START_OFFSET:
        return replace(_unknown(index), leader_epoch=state.leader_epoch)
    lag = UNKNOWN
    if _has_lag(state):
        if end is None:
            return _unknown(index, LeaderNotAvailable("The leader has not told the end of the partition."))
        lag = end - state.start_offset - state.complete_count
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=index,
        start_offset=state.start_offset,
        leader_epoch=state.leader_epoch,
        lag=lag,
        error_code=ErrorCode.none,
        error_message=None,
    )


def _unknown(index: int, error: KafkaError | None = None) -> DescribeShareGroupOffsetsResponsePartition:
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=index,
        start_offset=NO_START_OFFSET,
        leader_epoch=0,
        lag=UNKNOWN,
        error_code=ErrorCode.none if error is None else error.code,
        error_message=None if error is None else error.explicit_message,
    )


def _failed(group_id: str, error: KafkaError) -> DescribeShareGroupOffsetsResponseGroup:
    return DescribeShareGroupOffsetsResponseGroup(
        group_id=group_id, topics=(), error_code=error.code, error_message=error.explicit_message
    )
