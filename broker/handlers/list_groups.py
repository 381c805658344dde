"""ListGroups 0-5 (KIP-518, KIP-848; Kafka's `GroupCoordinatorService.listGroups`).

Filters ignore case; an unknown state or type matches no group. A client without the right to describe the cluster is
told of the groups that it may describe.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from itertools import chain
from operator import attrgetter

from kio.schema.errors import ErrorCode
from kio.schema.list_groups.v5 import ListGroupsRequest, ListGroupsResponse
from kio.schema.list_groups.v5.response import ListedGroup

from broker.request_context import RequestContext
from coordinator.group.group_port import Groups
from metadata.acls import CLUSTER_NAME, AclOperation, ResourceType
from protocol.durations import ZERO
from protocol.java_strings import java_trim

DESCRIBE = AclOperation.DESCRIBE


def list_groups(ctx: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse | Awaitable[ListGroupsResponse]:
    states = {java_trim(state.lower()) for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    return ctx.coordinators.groups.read_all(
        lambda state: _list(state.groups, states, types), lambda groups: _response(ctx, groups)
    )


def _list(groups: Groups, states: set[str], types: set[str]) -> list[ListedGroup]:
    return [
        ListedGroup(
            group_id=group.group_id,
            protocol_type=group.protocol_type or "",
            group_state=group.state_name,
            group_type=group.group_type.value,
        )
        for group in groups.all()
        if (not states or group.state_name.lower() in states) and (not types or group.group_type.value in types)
    ]


def _response(ctx: RequestContext, groups: Iterable[list[ListedGroup]]) -> ListGroupsResponse:
    listed = sorted(chain.from_iterable(groups), key=attrgetter("group_id"))
    if not ctx.allows(DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME, log_denied=False):
        listed = [
            group for group in listed if ctx.allows(DESCRIBE, ResourceType.GROUP, group.group_id, log_denied=False)
        ]
    return ListGroupsResponse(throttle_time=ZERO, error_code=ErrorCode.none, groups=tuple(listed))
