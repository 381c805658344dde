"""Offsets of share groups: DescribeShareGroupOffsets 0-1, AlterShareGroupOffsets 0, DeleteShareGroupOffsets 0.

KIP-932, KIP-1226; Kafka's `GroupCoordinatorService`. In a description an unknown group, topic or partition is no
error: it has no start offset (-1). To alter or delete offsets the group must have no members.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from kio.schema.alter_share_group_offsets.v0 import AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse
from kio.schema.alter_share_group_offsets.v0.response import (
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from kio.schema.delete_share_group_offsets.v0 import DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse
from kio.schema.delete_share_group_offsets.v0.response import DeleteShareGroupOffsetsResponseTopic
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

from broker.observe.group_metrics import EndsElsewhere
from broker.replication.partition import Role
from broker.request_context import RequestContext
from coordinator.group.group_coordinator_shard import GroupCoordinatorShard
from coordinator.group.share.group import ShareGroup
from coordinator.group.share.partition_states import begin_altering, note_altered, note_deleted, states_to_delete
from metadata.acls import AclOperation, ResourceType
from protocol.coordinator_records.share_records import (
    NO_START_OFFSET,
    UNKNOWN_COUNT,
    SharePartitionKey,
    ShareSnapshotValue,
    TopicPartitions,
)
from protocol.durations import ZERO
from protocol.errors import (
    GroupAuthorization,
    InvalidRequest,
    KafkaError,
    LeaderNotAvailable,
    TopicAuthorization,
    UnknownTopicOrPartition,
)
from protocol.topic_partition import PartitionKey
from protocol.uuids import ZERO as NO_TOPIC

UNKNOWN = -1


async def describe_share_group_offsets(
    ctx: RequestContext, request: DescribeShareGroupOffsetsRequest
) -> DescribeShareGroupOffsetsResponse:
    ctx.require("share.version")
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
    told = {key: _described_partition(key[1], states[one], ends.get(key)) for key, one in wanted.items()}
    topics = [_described_topic(ctx, told, name, indexes) for name, indexes in asked]
    return DescribeShareGroupOffsetsResponseGroup(
        group_id=group_id, topics=tuple(topics), error_code=ErrorCode.none, error_message=None
    )


def _check(group_id: str, asked: Sequence[Sequence[int]]) -> None:
    """`asked` are the partitions of each topic that there is; of others nothing is read. Raises InvalidRequest."""
    if asked and not group_id:
        raise InvalidRequest("The group id is empty.")
    if any(not indexes or min(indexes) < 0 for indexes in asked):
        raise InvalidRequest("Each topic must name partitions, none of them negative.")


def _initialized(state: GroupCoordinatorShard, group_id: str) -> Mapping[UUID, TopicPartitions]:
    group = state.groups.modern.find(ShareGroup, group_id)
    return {} if group is None else group.state.initialized


async def _ends(ctx: RequestContext, keys: Sequence[PartitionKey]) -> dict[PartitionKey, int]:
    """The high watermarks, as the leaders have them; one that is not told is left out."""
    elsewhere = EndsElsewhere(ctx.local.node_id, ctx.cluster.cache, ctx.cluster.peers.reach)
    await elsewhere.ask(keys)
    here = [(key, ctx.replicas.get(*key)) for key in keys]
    led = {key: one.high_watermark for key, one in here if one is not None and one.role is Role.LEADER}
    return {**elsewhere.found, **led}


def _described_topic(
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


def _described_partition(index: int, state: State, end: int | None) -> DescribeShareGroupOffsetsResponsePartition:
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


async def alter_share_group_offsets(
    ctx: RequestContext, request: AlterShareGroupOffsetsRequest
) -> AlterShareGroupOffsetsResponse:
    ctx.require("share.version")
    group_id = request.group_id
    groups = ctx.coordinators.groups
    epoch = await groups.read(group_id, lambda state: begin_altering(state.groups.modern, group_id))
    altered: dict[UUID, TopicPartitions] = {}
    any_topic = False
    topics = []
    for wanted in request.topics:
        topic = ctx.image.topics.get(wanted.topic_name)
        topic_id = NO_TOPIC if topic is None else topic.id
        is_allowed = ctx.allows(AclOperation.READ, ResourceType.TOPIC, wanted.topic_name)
        any_topic |= is_allowed and topic is not None
        partitions = []
        done = set()
        for partition in wanted.partitions:
            key = SharePartitionKey(group_id, topic_id, partition.partition_index)
            try:
                if not is_allowed:
                    raise TopicAuthorization
                if topic is None or partition.partition_index not in topic.partitions:
                    raise UnknownTopicOrPartition
                await ctx.local.share.states.initialize_at(key, epoch, partition.start_offset)
            except KafkaError as error:
                partitions.append(_altered_partition(partition.partition_index, error))
            else:
                done.add(partition.partition_index)
                partitions.append(_altered_partition(partition.partition_index, None))
        if done:
            altered[topic_id] = TopicPartitions(wanted.topic_name, frozenset(done))
        topics.append(
            AlterShareGroupOffsetsResponseTopic(
                topic_name=wanted.topic_name, topic_id=topic_id, partitions=tuple(partitions)
            )
        )
    if any_topic:
        await groups.write(group_id, lambda state: note_altered(state.groups.modern, group_id, altered))
    return AlterShareGroupOffsetsResponse(
        throttle_time=ZERO, error_code=ErrorCode.none, error_message=None, responses=tuple(topics)
    )


def _altered_partition(index: int, error: KafkaError | None) -> AlterShareGroupOffsetsResponsePartition:
    return AlterShareGroupOffsetsResponsePartition(
        partition_index=index,
        error_code=ErrorCode.none if error is None else error.code,
        error_message=None if error is None else error.message,
    )


async def delete_share_group_offsets(
    ctx: RequestContext, request: DeleteShareGroupOffsetsRequest
) -> DeleteShareGroupOffsetsResponse:
    ctx.require("share.version")
    group_id = request.group_id
    groups = ctx.coordinators.groups
    names = {topic.topic_name for topic in request.topics}
    known = await groups.read(group_id, lambda state: states_to_delete(state.groups.modern, group_id, names))
    topics = []
    deleted = set()
    for name in dict.fromkeys(topic.topic_name for topic in request.topics):
        if not ctx.allows(AclOperation.READ, ResourceType.TOPIC, name):
            topics.append(_deleted_topic(name, NO_TOPIC, TopicAuthorization()))
            continue
        if name not in known or ctx.image.topics.get(name) is None:
            topics.append(_deleted_topic(name, NO_TOPIC, UnknownTopicOrPartition()))
            continue
        topic_id, partitions = known[name]
        try:
            for index in partitions:
                await ctx.local.share.states.forget(SharePartitionKey(group_id, topic_id, index))
        except KafkaError as error:
            topics.append(_deleted_topic(name, topic_id, error))
        else:
            deleted.add(topic_id)
            topics.append(_deleted_topic(name, topic_id))
    if deleted:
        await groups.write(group_id, lambda state: note_deleted(state.groups.modern, group_id, deleted))
    return DeleteShareGroupOffsetsResponse(
        throttle_time=ZERO, error_code=ErrorCode.none, error_message=None, responses=tuple(topics)
    )


def _deleted_topic(name: str, topic_id: UUID, error: KafkaError | None = None) -> DeleteShareGroupOffsetsResponseTopic:
    return DeleteShareGroupOffsetsResponseTopic(
        topic_name=name,
        topic_id=topic_id,
        error_code=ErrorCode.none if error is None else error.code,
        error_message=None if error is None else error.message,
    )
