"""Groups for operators: DescribeGroups 0-6, ListGroups 0-5, DeleteGroups 0-3.

KIP-229, KIP-430, KIP-518, KIP-848, KIP-1043; Kafka's `GroupCoordinatorService`. An unknown classic group is Dead, and
from version 6 on also an error. Filters of ListGroups ignore case; an unknown state or type matches no group. A
client without the right to describe the cluster is shown the groups that it may describe.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
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
from broker.security import permissions as authorized_operations
from coordinator.group.directory import GroupDirectory
from coordinator.group.group_coordinator_shard import GroupCoordinatorShard
from coordinator.group.group_port import GroupDescription
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

    def answer(found: Mapping[str, GroupDescription | KafkaError]) -> DescribeGroupsResponse:
        described = {group_id: _group(ctx, request, group_id, group) for group_id, group in found.items()}
        return DescribeGroupsResponse(
            throttle_time=ZERO, groups=tuple([described[group_id] for group_id in request.groups])
        )

    return ask_each(request.groups, lambda group_id: coordinator.read(group_id, _describing(group_id)), answer)


def _describing(group_id: str) -> Callable[[GroupCoordinatorShard], GroupDescription]:
    return lambda state: state.groups.classic_group(group_id).describe()


def _group(
    ctx: RequestContext, request: DescribeGroupsRequest, group_id: str, found: GroupDescription | KafkaError
) -> DescribedGroup:
    if isinstance(found, GroupIdNotFound) and ctx.version < FIRST_VERSION_WITH_NOT_FOUND:
        found = GroupDescription(DEAD, "", "", ())
    if isinstance(found, KafkaError):
        return _failed(group_id, found)
    operations = authorized_operations.UNKNOWN
    if request.include_authorized_operations:
        operations = ctx.operations(ResourceType.GROUP, group_id)
    return DescribedGroup(
        error_code=ErrorCode.none,
        error_message=None,
        group_id=group_id,
        group_state=found.state,
        protocol_type=found.protocol_type,
        protocol_data=found.protocol,
        members=tuple(
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in found.members
        ),
        authorized_operations=operations,
    )


def _failed(group_id: str, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(
        error_code=error.code,
        error_message=error.explicit_message,
        group_id=group_id,
        group_state=DEAD if isinstance(error, GroupIdNotFound) else "",
        protocol_type="",
        protocol_data="",
        members=(),
        authorized_operations=authorized_operations.UNKNOWN,
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
