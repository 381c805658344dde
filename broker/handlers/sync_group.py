"""SyncGroup 0-5 of classic groups (KIP-345, KIP-559; Kafka's `GroupCoordinatorService.syncGroup`).

Deviation: see `coordinator.group.classic.sync._park`.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kio.schema.sync_group.v5 import SyncGroupRequest, SyncGroupResponse

from broker.network.answers import when_done
from broker.request_context import RequestContext
from coordinator.group.classic.messages import SyncAnswer, SyncRequest
from protocol.durations import ZERO
from protocol.entities import maker
from protocol.errors import InconsistentGroupProtocol, InvalidGroupId

new_response = maker(SyncGroupResponse)


def sync_group(ctx: RequestContext, request: SyncGroupRequest) -> SyncGroupResponse | Awaitable[SyncGroupResponse]:
    if ctx.version >= 5 and (request.protocol_type is None or request.protocol_name is None):
        raise InconsistentGroupProtocol
    if not request.group_id:
        raise InvalidGroupId
    sync = SyncRequest(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.generation_id,
        {assignment.member_id: assignment.assignment for assignment in request.assignments},
        request.protocol_type,
        request.protocol_name,
    )
    return when_done(ctx.coordinators.groups.write(request.group_id, lambda state: state.groups.sync(sync)), _response)


def _response(answer: SyncAnswer) -> SyncGroupResponse:
    return new_response(
        throttle_time=ZERO,
        error_code=answer.error,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol_name,
        assignment=answer.assignment,
    )
