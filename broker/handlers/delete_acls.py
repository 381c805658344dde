"""DeleteAcls 1-3 (KIP-140, KIP-290), decided by `controller.acls`: each filter is answered with what it has deleted."""

from __future__ import annotations

from collections.abc import Iterable

from kio.schema.delete_acls.v3 import DeleteAclsRequest, DeleteAclsResponse
from kio.schema.delete_acls.v3.response import DeleteAclsFilterResult, DeleteAclsMatchingAcl
from kio.schema.errors import ErrorCode

from broker.handlers.acl_filters import filter_of, require_authorizer, require_known
from broker.network.handler import Handler
from broker.request_context import RequestContext
from controller.acls import Deleted, decide_delete
from protocol.durations import ZERO


def _prepare(_ctx: RequestContext, request: DeleteAclsRequest) -> DeleteAclsRequest:
    require_known(*request.filters)
    return request


async def _delete_acls(ctx: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse:
    require_authorizer(ctx)
    filters = [filter_of(each) for each in request.filters]
    return await ctx.controller.submit(lambda image: decide_delete(image, filters).map(_response))


def _response(results: Iterable[Deleted]) -> DeleteAclsResponse:
    return DeleteAclsResponse(throttle_time=ZERO, filter_results=tuple(map(_result, results)))


def _result(deleted: Deleted) -> DeleteAclsFilterResult:
    error = deleted.error
    return DeleteAclsFilterResult(
        error_code=ErrorCode.none if error is None else error.code,
        error_message=None if error is None else error.message,
        matching_acls=tuple(
            DeleteAclsMatchingAcl(
                error_code=ErrorCode.none,
                error_message=None,
                resource_type=acl.resource_type,
                resource_name=acl.resource_name,
                pattern_type=acl.pattern_type,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission_type,
            )
            for acl in deleted.acls
        ),
    )


delete_acls = Handler(_delete_acls, prepare=_prepare)
