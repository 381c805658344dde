"""DescribeAcls 1-3 (KIP-140, KIP-290; Kafka's `AclApis`): the ACLs that a filter finds, by what they protect."""

from __future__ import annotations

from itertools import groupby

from kio.schema.describe_acls.v3 import DescribeAclsRequest, DescribeAclsResponse
from kio.schema.describe_acls.v3.response import AclDescription, DescribeAclsResource
from kio.schema.errors import ErrorCode

from broker.handlers.acl_filters import filter_of, require_authorizer, require_known
from broker.network.handler import Handler
from broker.request_context import RequestContext
from metadata.acls import acl_order, pattern_of
from protocol.durations import ZERO


def _prepare(_ctx: RequestContext, request: DescribeAclsRequest) -> DescribeAclsRequest:
    require_known(request)
    return request


def _describe_acls(ctx: RequestContext, request: DescribeAclsRequest) -> DescribeAclsResponse:
    require_authorizer(ctx)
    wanted = filter_of(request)
    found = sorted(filter(wanted.matches, ctx.image.acls.values()), key=acl_order)
    return DescribeAclsResponse(
        throttle_time=ZERO,
        error_code=ErrorCode.none,
        error_message=None,
        resources=tuple(
            DescribeAclsResource(
                resource_type=resource_type,
                resource_name=name,
                pattern_type=pattern_type,
                acls=tuple(
                    AclDescription(
                        principal=acl.principal,
                        host=acl.host,
                        operation=acl.operation,
                        permission_type=acl.permission_type,
                    )
                    for acl in acls
                ),
            )
            for (resource_type, name, pattern_type), acls in groupby(found, key=pattern_of)
        ),
    )


describe_acls = Handler(_describe_acls, prepare=_prepare)
