"""DeleteGroups 0-3 (KIP-229; Kafka's `GroupCoordinatorService.deleteGroups`): each group is answered once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from kio.schema.errors import ErrorCode

from broker.request_context import RequestContext
from coordinator.group.share_deletion import States, begin_deleting
from protocol.coordinator_records.share_records import SharePartitionKey
from protocol.durations import ZERO
from protocol.errors import KafkaError, UnknownTopicOrPartition
from protocol.newer.delete_groups_v3 import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


async def handle(ctx: RequestContext, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    coordinator = ctx.coordinators.groups
    by_partition: dict[int, list[str]] = {}
    for group_id in dict.fromkeys(request.groups_names):
        by_partition.setdefault(coordinator.partition_for(group_id), []).append(group_id)
    codes = await asyncio.gather(*(_delete(ctx, *each) for each in by_partition.items()))
    return _response(request, {group_id: code for found in codes for group_id, code in found.items()})


async def _delete(ctx: RequestContext, partition: int, group_ids: Sequence[str]) -> dict[str, ErrorCode]:
    """The error codes of groups of one shard."""
    runtime = ctx.coordinators.groups.runtime
    try:
        begun = await runtime.write(partition, lambda shard: begin_deleting(shard, group_ids))
    except KafkaError as error:
        return dict.fromkeys(group_ids, error.code)
    forgotten = await asyncio.gather(*(_forget(ctx, *each) for each in begun.waiting.items()))
    codes = {**begun.codes, **dict(zip(begun.waiting, forgotten, strict=True))}
    left = [group_id for group_id in begun.waiting if codes[group_id] is ErrorCode.none]
    if left:
        try:
            deleted = await runtime.write(partition, lambda shard: shard.offsets.delete_groups(left))
            codes.update(deleted)
        except KafkaError as error:
            codes.update(dict.fromkeys(left, error.code))
    return codes


async def _forget(ctx: RequestContext, group_id: str, topics: States) -> ErrorCode:
    """Have the share coordinator forget the states of a share group. The state of a topic that is gone is gone too."""
    if not ctx.coordinators.share.topic_exists:
        return ErrorCode.none  # none was ever made
    for topic_id, partitions in topics.items():
        for index in sorted(partitions):
            try:
                await ctx.local.share.states.forget(SharePartitionKey(group_id, topic_id, index))
            except UnknownTopicOrPartition:
                continue
            except KafkaError as error:
                return error.code
    return ErrorCode.none


def _response(request: DeleteGroupsRequest, codes: Mapping[str, ErrorCode]) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        throttle_time=ZERO,
        results=tuple(_result(group_id, codes[group_id]) for group_id in dict.fromkeys(request.groups_names)),
    )


def _result(group_id: str, code: ErrorCode) -> DeletableGroupResult:
    return DeletableGroupResult(group_id=group_id, error_code=code, error_message=None)  # as in Kafka: only the code


def error_response(ctx: RequestContext, request: DeleteGroupsRequest, error: KafkaError) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        throttle_time=ZERO,
        results=tuple(_result(group_id, error.code) for group_id in dict.fromkeys(request.groups_names)),
    )
