"""The end of share groups: the share coordinator forgets them first, else their names could not be used again."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from uuid import UUID

from kio.schema.errors import ErrorCode

from broker.coordinators.group_coordinator import GroupCoordinator
from broker.coordinators.share_coordinator import ShareCoordinator
from broker.share.share_states import ShareStates
from coordinator.group.group_coordinator_shard import GroupCoordinatorShard
from coordinator.group.share.partition_states import Begun, begin_deleting
from coordinator.runtime.outcome import Outcome
from protocol.coordinator_records.share_records import SharePartitionKey
from protocol.errors import KafkaError, UnknownTopicOrPartition


async def delete_groups(
    groups: GroupCoordinator, shares: ShareCoordinator, states: ShareStates, partition: int, group_ids: Sequence[str]
) -> dict[str, ErrorCode]:
    """Delete groups of one shard, of any kind; returns the error code of each."""
    runtime = groups.runtime

    def begin(shard: GroupCoordinatorShard) -> Outcome[Begun]:
        return begin_deleting(shard.groups.modern, shard.offsets, group_ids)

    try:
        begun = await runtime.write(partition, begin)
    except KafkaError as error:
        return dict.fromkeys(group_ids, error.code)
    forgotten = await asyncio.gather(*(_forget(shares, states, *each) for each in begun.waiting.items()))
    codes = {**begun.codes, **dict(zip(begun.waiting, forgotten, strict=True))}
    left = [group_id for group_id in begun.waiting if codes[group_id] is ErrorCode.none]
    if left:
        try:
            deleted = await runtime.write(partition, lambda shard: shard.offsets.delete_groups(left))
            codes.update(deleted)
        except KafkaError as error:
            codes.update(dict.fromkeys(left, error.code))
    return codes


async def _forget(
    shares: ShareCoordinator, states: ShareStates, group_id: str, topics: Mapping[UUID, frozenset[int]]
) -> ErrorCode:
    """Have the share coordinator forget a group's states. The state of a topic that is gone is gone too."""
    if not shares.topic_exists:
        return ErrorCode.none  # none was ever made
    for topic_id, partitions in topics.items():
        for index in sorted(partitions):
            try:
                await states.forget(SharePartitionKey(group_id, topic_id, index))
            except UnknownTopicOrPartition:
                continue
            except KafkaError as error:
                return error.code
    return ErrorCode.none
