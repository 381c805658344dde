"""JoinGroup 0-9 of classic groups (KIP-345, 394, 559, 800, 814; Kafka's `GroupCoordinatorService.joinGroup`).

Deviations, all in cases where Kafka leaves somebody without an answer: see
`coordinator.group.classic.join.check_request` and `coordinator.group.classic.roster.Roster.rejoin`.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode
from kio.schema.join_group.v9 import JoinGroupRequest, JoinGroupResponse
from kio.schema.join_group.v9.response import JoinGroupResponseMember

from broker.network.answers import when_done
from broker.request_context import RequestContext
from coordinator.group.classic.join import check_request
from coordinator.group.classic.messages import JoinAnswer, JoinRequest
from coordinator.group.classic.protocols import MemberProtocol
from protocol.durations import MILLISECOND, ZERO
from protocol.entities import maker

if TYPE_CHECKING:
    pass


new_response = maker(JoinGroupResponse)
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
        return _response(ctx, JoinAnswer(request.member_id, wrong))
    answer = coordinator.write(request.group_id, lambda state: state.groups.join(join))
    return when_done(answer, lambda joined: _response(ctx, joined))


def _response(ctx: RequestContext, answer: JoinAnswer) -> JoinGroupResponse:
    return new_response(
        throttle_time=ZERO,
        error_code=answer.error,
        generation_id=answer.generation,
        protocol_type=answer.protocol_type,
        # Null since version 7 (KIP-559).
        protocol_name="" if answer.protocol_name is None and ctx.version < 7 else answer.protocol_name,
        leader=answer.leader,
        skip_assignment=answer.skip_assignment,
        member_id=answer.member_id,
        members=tuple(
            new_member(member_id=member.member_id, group_instance_id=member.group_instance_id, metadata=member.metadata)
            for member in answer.members
        ),
    )
