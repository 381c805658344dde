"""Groups for operators: DescribeGroups 0-6, ListGroups 0-5, DeleteGroups 0-3.

KIP-229, KIP-430, KIP-518, KIP-848, KIP-1043; Kafka's `GroupCoordinatorService`. An unknown classic group is Dead, and
from version 6 on also an error. Filters of ListGroups ignore case; an unknown state or type matches no group. A
client without the right to describe the cluster is shown the groups that it may describe.
"""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Awaitable, Iterable, Mapping
from itertools import chain
from operator import attrgetter

from kio.schema.describe_groups.v6 import DescribeGroupsRequest, DescribeGroupsResponse
from kio.schema.describe_groups.v6.response import DescribedGroup, DescribedGroupMember
from kio.schema.errors import ErrorCode
from kio.schema.list_groups.v5 import ListGroupsRequest, ListGroupsResponse
from kio.schema.list_groups.v5.response import ListedGroup

from broker.coordinators.hosted import of_those_here
from broker.coordinators.share_coordinator import delete_groups as delete_shared_groups
from broker.network.answers import ask_each, when_all_settled
from broker.request_context import RequestContext
from coordinator.group.classic.group import ClassicGroup, GroupState
from coordinator.group.directory import GroupDirectory
from metadata.acls import CLUSTER_NAME, AclOperation, ResourceType
from protocol.durations import ZERO
from protocol.errors import GroupIdNotFound, KafkaError
from protocol.java_strings import java_trim
from protocol.newer.admin import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse

FIRST_VERSION_WITH_NOT_FOUND = 6
DEAD = "Dead"


def describe_groups(
    ctx: RequestContext, request: DescribeGroupsRequest
) -> DescribeGroupsResponse | Awaitable[DescribeGroupsResponse]:
    coordinator = ctx.coordinators.groups

    def ask(group_id: str) -> Future[DescribedGroup]:
        return coordinator.read(group_id, lambda state: _described(ctx, request, state.groups.classic_group(group_id)))

    def respond(answers: Mapping[str, DescribedGroup | KafkaError]) -> DescribeGroupsResponse:
        groups = {
            group_id: _undescribed(ctx, request, group_id, answer) if isinstance(answer, KafkaError) else answer
            for group_id, answer in answers.items()
        }
        return DescribeGroupsResponse(
            throttle_time=ZERO, groups=tuple([groups[group_id] for group_id in request.groups])
        )

    return ask_each(request.groups, ask, respond)


def _described(ctx: RequestContext, request: DescribeGroupsRequest, group: ClassicGroup) -> DescribedGroup:
    """The protocol, and what members say for it, are empty unless the group is Stable."""
    name = group.protocol_name if group.state is GroupState.STABLE else None
    return DescribedGroup(
        error_code=ErrorCode.none,
        error_message=None,
        group_id=group.group_id,
        group_state=group.state_name,
        protocol_type=group.protocol_type or "",
        protocol_data=name or "",
        members=tuple(
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=b"" if name is None else member.metadata(name),
                member_assignment=member.assignment,
            )
            for member in group.members.values()
        ),
        authorized_operations=ctx.operations(
            ResourceType.GROUP, group.group_id, asked=request.include_authorized_operations
        ),
    )


def _undescribed(
    ctx: RequestContext, request: DescribeGroupsRequest, group_id: str, error: KafkaError
) -> DescribedGroup:
    is_dead = isinstance(error, GroupIdNotFound)
    is_no_error = is_dead and ctx.version < FIRST_VERSION_WITH_NOT_FOUND
    return DescribedGroup(
        error_code=ErrorCode.none if is_no_error else error.code,
        error_message=None if is_no_error else error.explicit_message,
        group_id=group_id,
        group_state=DEAD if is_dead else "",
        protocol_type="",
        protocol_data="",
        members=(),
        authorized_operations=ctx.operations(
            ResourceType.GROUP, group_id, asked=is_no_error and request.include_authorized_operations
        ),
    )


DESCRIBE = AclOperation.DESCRIBE


def list_groups(ctx: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse | Awaitable[ListGroupsResponse]:
    states = {java_trim(state.lower()) for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    lists = ctx.coordinators.groups.read_all(lambda state: _list(state.groups, states, types))
    return when_all_settled(lists, lambda answers: _list_groups_response(ctx, of_those_here(answers)))


def _list(groups: GroupDirectory, states: set[str], types: set[str]) -> list[ListedGroup]:
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


def _list_groups_response(ctx: RequestContext, groups: Iterable[list[ListedGroup]]) -> ListGroupsResponse:
    listed = sorted(chain.from_iterable(groups), key=attrgetter("group_id"))
    if not ctx.allows(DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME, log_denied=False):
        listed = [
            group for group in listed if ctx.allows(DESCRIBE, ResourceType.GROUP, group.group_id, log_denied=False)
        ]
    return ListGroupsResponse(throttle_time=ZERO, error_code=ErrorCode.none, groups=tuple(listed))


async def delete_groups(ctx: RequestContext, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    coordinator = ctx.coordinators.groups
    by_partition: dict[int, list[str]] = {}
    for group_id in dict.fromkeys(request.groups_names):
        by_partition.setdefault(coordinator.partition_for(group_id), []).append(group_id)
    states = ctx.local.share.states
    codes = await asyncio.gather(*(delete_shared_groups(coordinator, states, *each) for each in by_partition.items()))
    return _delete_groups_response(request, {group_id: code for found in codes for group_id, code in found.items()})


def _delete_groups_response(request: DeleteGroupsRequest, codes: Mapping[str, ErrorCode]) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        throttle_time=ZERO,
        results=tuple(_result(group_id, codes[group_id]) for group_id in dict.fromkeys(request.groups_names)),
    )


def _result(group_id: str, code: ErrorCode) -> DeletableGroupResult:
    return DeletableGroupResult(group_id=group_id, error_code=code, error_message=None)  # as in Kafka: only the code
