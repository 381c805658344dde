"""ListGroups 0-5 (KIP-518, KIP-848; Kafka's `GroupCoordinatorService.listGroups`).

Filters do not mind upper and lower case; a state or type that does not exist is one that no group has.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable

from kio.schema.errors import ErrorCode
from kio.schema.list_groups.v5 import ListGroupsRequest, ListGroupsResponse
from kio.schema.list_groups.v5.response import ListedGroup

from broker.network.answers import when_all_settled
from broker.network.context import RequestContext
from coordinator.group.group_port import Groups
from protocol.durations import ZERO
from protocol.errors import KafkaError, NotCoordinator
from protocol.java_strings import java_trim

ONLY_READS = True


def handle(ctx: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse | Awaitable[ListGroupsResponse]:
    states = {java_trim(state.lower()) for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    answers = ctx.node.group_coordinator.read_all(lambda state: _list(state.groups, states, types))
    return when_all_settled(answers, _response)


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


def _response(found: Iterable[list[ListedGroup] | KafkaError]) -> ListGroupsResponse:
    """Raises what a shard raised, COORDINATOR_LOAD_IN_PROGRESS above all; one that has just left counts for nothing."""
    groups: list[ListedGroup] = []
    for result in found:
        if isinstance(result, KafkaError):
            if not isinstance(result, NotCoordinator):
                raise result
        else:
            groups += result
    return ListGroupsResponse(throttle_time=ZERO, error_code=ErrorCode.none, groups=tuple(groups))
