"""DeleteGroups 0-3 (KIP-229; Kafka's `GroupCoordinatorService.deleteGroups`): each group is answered once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from kio.schema.errors import ErrorCode

from broker.coordinators.share_coordinator import delete_groups
from broker.request_context import RequestContext
from protocol.durations import ZERO
from protocol.errors import KafkaError
from protocol.newer.admin import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


async def handle(ctx: RequestContext, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    coordinator = ctx.coordinators.groups
    by_partition: dict[int, list[str]] = {}
    for group_id in dict.fromkeys(request.groups_names):
        by_partition.setdefault(coordinator.partition_for(group_id), []).append(group_id)
    states = ctx.local.share.states
    codes = await asyncio.gather(*(delete_groups(coordinator, states, *each) for each in by_partition.items()))
    return _response(request, {group_id: code for found in codes for group_id, code in found.items()})


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
