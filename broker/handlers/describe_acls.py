"""DescribeAcls 1-3 (KIP-140, KIP-290; Kafka's `AclApis`): the ACLs that a filter finds, by what they protect."""

from __future__ import annotations

from itertools import islice

from kio.schema.describe_acls.v3 import DescribeAclsRequest, DescribeAclsResponse
from kio.schema.describe_acls.v3.response import AclDescription, DescribeAclsResource
from kio.schema.errors import ErrorCode

from broker.handlers.acl_filters import filter_of, require_authorizer, require_known
from broker.request_context import RequestContext
from metadata.acls import acl_order, pattern_of
from protocol.durations import ZERO
from protocol.metadata.credentials import AccessControlEntryRecord
from protocol.schema import maker

IN_A_TURN = 1000
"""ACLs that are looked at, or told, before the loop serves others."""

_description, _resource = maker(AclDescription), maker(DescribeAclsResource)


def prepare(_ctx: RequestContext, request: DescribeAclsRequest) -> DescribeAclsRequest:
    require_known(request)
    return request


async def handle(ctx: RequestContext, request: DescribeAclsRequest) -> DescribeAclsResponse:
    require_authorizer(ctx)
    wanted = filter_of(request)
    found: list[AccessControlEntryRecord] = []
    acls = iter(ctx.image.acls.values())
    while some := list(islice(acls, IN_A_TURN)):
        found += filter(wanted.matches, some)
        if len(some) == IN_A_TURN:
            await ctx.turn()
    by_pattern: dict[tuple[int, str, int], list[AclDescription]] = {}
    for number, acl in enumerate(sorted(found, key=acl_order), 1):
        by_pattern.setdefault(pattern_of(acl), []).append(
            _description(
                principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission_type
            )
        )
        if number % IN_A_TURN == 0:
            await ctx.turn()
    return DescribeAclsResponse(
        throttle_time=ZERO,
        error_code=ErrorCode.none,
        error_message=None,
        resources=tuple(
            _resource(resource_type=resource_type, resource_name=name, pattern_type=pattern_type, acls=tuple(acls))
            for (resource_type, name, pattern_type), acls in by_pattern.items()
        ),
    )
