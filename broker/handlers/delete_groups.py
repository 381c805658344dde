"""DeleteGroups 0-3 (KIP-229; Kafka's `GroupCoordinatorService.deleteGroups`): each group is answered once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from kio.schema.errors import ErrorCode

from broker.request_context import RequestContext
from broker.share import deletion
from protocol.durations import ZERO
from protocol.newer.delete_groups_v3 import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


async def delete_groups(ctx: RequestContext, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    coordinator = ctx.coordinators.groups
    by_partition: dict[int, list[str]] = {}
    for group_id in dict.fromkeys(request.groups_names):
        by_partition.setdefault(coordinator.partition_for(group_id), []).append(group_id)
    shares, states = ctx.coordinators.share, ctx.local.share.states
    codes = await asyncio.gather(
        *(deletion.delete_groups(coordinator, shares, states, *each) for each in by_partition.items())
    )
    return _response(request, {group_id: code for found in codes for group_id, code in found.items()})


def _response(request: DeleteGroupsRequest, codes: Mapping[str, ErrorCode]) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        throttle_time=ZERO,
        results=tuple(_result(group_id, codes[group_id]) for group_id in dict.fromkeys(request.groups_names)),
    )


def _result(group_id: str, code: ErrorCode) -> DeletableGroupResult:
    return DeletableGroupResult(group_id=group_id, error_code=code, error_message=None)  # as in Kafka: only the code
