"""LeaveGroup 0-5 of classic groups (KIP-345, KIP-800; Kafka's `GroupCoordinatorService.leaveGroup`)."""

from __future__ import annotations

from collections.abc import Awaitable

from kio.schema.errors import ErrorCode
from kio.schema.leave_group.v5 import LeaveGroupRequest, LeaveGroupResponse
from kio.schema.leave_group.v5.response import MemberResponse

from broker.network.answers import when_done
from broker.request_context import RequestContext
from coordinator.group.classic.leave import LeaveAnswer
from coordinator.group.classic.messages import LeaveRequest, MemberIdentity
from protocol.durations import ZERO
from protocol.errors import InvalidGroupId


def leave_group(ctx: RequestContext, request: LeaveGroupRequest) -> LeaveGroupResponse | Awaitable[LeaveGroupResponse]:
    if not request.group_id:
        raise InvalidGroupId
    leave = LeaveRequest(
        request.group_id,
        tuple(MemberIdentity(member.member_id, member.group_instance_id, member.reason) for member in request.members),
    )
    answer = ctx.coordinators.groups.write(request.group_id, lambda state: state.groups.leave(leave))
    return when_done(answer, lambda errors: _response(ctx, request, errors))


def _response(ctx: RequestContext, request: LeaveGroupRequest, errors: LeaveAnswer) -> LeaveGroupResponse:
    return LeaveGroupResponse(
        throttle_time=ZERO,
        # Before version 3 there is one member, whose error is that of the response.
        error_code=ErrorCode.none if ctx.version >= 3 else errors[0],
        members=tuple(
            MemberResponse(member_id=member.member_id, group_instance_id=member.group_instance_id, error_code=error)
            for member, error in zip(request.members, errors, strict=True)
        ),
    )
