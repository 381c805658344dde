"""DescribeGroups 0-6 (KIP-430, KIP-1043; Kafka's `GroupMetadataManager.describeGroups`).

An unknown group is Dead, and from version 6 on also an error.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from kio.schema.describe_groups.v6 import DescribeGroupsRequest, DescribeGroupsResponse
from kio.schema.describe_groups.v6.response import DescribedGroup, DescribedGroupMember
from kio.schema.errors import ErrorCode

from broker.network.answers import ask_each
from broker.request_context import RequestContext
from broker.security import authorized_operations
from coordinator.group.group_coordinator_shard import GroupCoordinatorShard
from coordinator.group.group_port import GroupDescription
from metadata.acls import ResourceType
from protocol.durations import ZERO
from protocol.errors import GroupIdNotFound, KafkaError

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
