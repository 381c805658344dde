"""The members of classic groups: JoinGroup 0-9, SyncGroup 0-5, Heartbeat 0-4, LeaveGroup 0-5.

KIP-345, KIP-394, KIP-559, KIP-800, KIP-814; Kafka's `GroupCoordinatorService`. The group's shard decides, and most of
its answers have the error in them.

Deviations, all in cases where Kafka leaves somebody without an answer: see
`coordinator.group.classic.join.check_request`, `coordinator.group.classic.members.Roster.rejoin` and
`coordinator.group.classic.member_requests._park`.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode
from kio.schema.heartbeat.v4 import HeartbeatRequest, HeartbeatResponse
from kio.schema.join_group.v9 import JoinGroupRequest, JoinGroupResponse
from kio.schema.join_group.v9.response import JoinGroupResponseMember
from kio.schema.leave_group.v5 import LeaveGroupRequest, LeaveGroupResponse
from kio.schema.leave_group.v5.response import MemberResponse
from kio.schema.sync_group.v5 import SyncGroupRequest, SyncGroupResponse

from broker.network.answers import when_done
from broker.request_context import RequestContext
from coordinator.group.classic.join import check_request
from coordinator.group.classic.members import (
    JoinAnswer,
    JoinRequest,
    LeaveAnswer,
    LeaveRequest,
    MemberIdentity,
    MemberProtocol,
    SyncAnswer,
    SyncRequest,
)
from protocol.durations import MILLISECOND, ZERO
from protocol.errors import InconsistentGroupProtocol, InvalidGroupId
from protocol.schema import maker

if TYPE_CHECKING:
    pass


new_join_group_response = maker(JoinGroupResponse)
new_member = maker(JoinGroupResponseMember)


def join_group(ctx: RequestContext, request: JoinGroupRequest) -> JoinGroupResponse | Awaitable[JoinGroupResponse]:
    session_timeout = request.session_timeout // MILLISECOND
    join = JoinRequest(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        ctx.client_id or "",
        f"/{ctx.connection.client_address}",
        session_timeout,
        # Version 0 has no separate rebalance timeout.
        request.rebalance_timeout // MILLISECOND if ctx.version > 0 else session_timeout,
        request.protocol_type,
        tuple(MemberProtocol(protocol.name, protocol.metadata) for protocol in request.protocols),
        request.reason,
        member_id_required=ctx.version >= 4,
        can_skip_assignment=ctx.version >= 9,
    )
    coordinator = ctx.coordinators.groups
    wrong = check_request(join, coordinator.config)
    if wrong is not ErrorCode.none:
        return _join_group_response(ctx, JoinAnswer(request.member_id, wrong))
    answer = coordinator.write(request.group_id, lambda state: state.groups.join(join))
    return when_done(answer, lambda joined: _join_group_response(ctx, joined))


def _join_group_response(ctx: RequestContext, answer: JoinAnswer) -> JoinGroupResponse:
    return new_join_group_response(
        throttle_time=ZERO,
        error_code=answer.error,
        generation_id=answer.generation,
        protocol_type=answer.protocol_type,
        # Null since version 7 (KIP-559), also for the empty name.
        protocol_name=answer.protocol_name or (None if ctx.version >= 7 else ""),
        leader=answer.leader,
        skip_assignment=answer.skip_assignment,
        member_id=answer.member_id,
        members=tuple(
            new_member(member_id=member.member_id, group_instance_id=member.group_instance_id, metadata=member.metadata)
            for member in answer.members
        ),
    )


new_sync_group_response = maker(SyncGroupResponse)


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
    return when_done(
        ctx.coordinators.groups.write(request.group_id, lambda state: state.groups.sync(sync)), _sync_group_response
    )


def _sync_group_response(answer: SyncAnswer) -> SyncGroupResponse:
    return new_sync_group_response(
        throttle_time=ZERO,
        error_code=answer.error,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol_name,
        assignment=answer.assignment,
    )


def heartbeat(ctx: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse | Awaitable[HeartbeatResponse]:
    if not request.group_id:
        raise InvalidGroupId
    answer = ctx.coordinators.groups.write(request.group_id, lambda state: state.groups.heartbeat(request))
    return when_done(answer, _heartbeat_response)


def _heartbeat_response(code: ErrorCode) -> HeartbeatResponse:
    return _GO_ON if code is ErrorCode.none else HeartbeatResponse(throttle_time=ZERO, error_code=code)


_GO_ON = HeartbeatResponse(throttle_time=ZERO, error_code=ErrorCode.none)


def leave_group(ctx: RequestContext, request: LeaveGroupRequest) -> LeaveGroupResponse | Awaitable[LeaveGroupResponse]:
    if not request.group_id:
        raise InvalidGroupId
    leave = LeaveRequest(
        request.group_id,
        tuple(MemberIdentity(member.member_id, member.group_instance_id, member.reason) for member in request.members),
    )
    answer = ctx.coordinators.groups.write(request.group_id, lambda state: state.groups.leave(leave))
    return when_done(answer, lambda errors: _leave_group_response(ctx, request, errors))


def _leave_group_response(ctx: RequestContext, request: LeaveGroupRequest, errors: LeaveAnswer) -> LeaveGroupResponse:
    return LeaveGroupResponse(
        throttle_time=ZERO,
        # Before version 3 there is one member, whose error is that of the response.
        error_code=ErrorCode.none if ctx.version >= 3 else errors[0],
        members=tuple(
            MemberResponse(member_id=member.member_id, group_instance_id=member.group_instance_id, error_code=error)
            for member, error in zip(request.members, errors, strict=True)
        ),
    )
