"""ACLs: DescribeAcls 1-3, CreateAcls 1-3, DeleteAcls 1-3 (KIP-140, KIP-290; Kafka's `AclApis`).

A filter finds ACLs by what they protect. `controller.acls` decides on changes: each new ACL is answered in the order of
the request, each filter of a deletion with what it has deleted.

Deviation: a principal without a type is refused (INVALID_REQUEST). Kafka takes it, and then cannot authorize anybody
for that resource.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from kio.schema.create_acls.v3 import CreateAclsRequest, CreateAclsResponse
from kio.schema.create_acls.v3.request import AclCreation
from kio.schema.create_acls.v3.response import AclCreationResult
from kio.schema.delete_acls.v3 import DeleteAclsRequest, DeleteAclsResponse
from kio.schema.delete_acls.v3.response import DeleteAclsFilterResult, DeleteAclsMatchingAcl
from kio.schema.describe_acls.v3 import DescribeAclsRequest, DescribeAclsResponse
from kio.schema.describe_acls.v3.response import AclDescription, DescribeAclsResource
from kio.schema.errors import ErrorCode

from broker.network.ports import Handler
from broker.request_context import RequestContext
from controller.acls import Deleted, decide_create, decide_delete
from metadata.acls import AclFilter, PatternType, acl_order, pattern_of
from protocol.durations import ZERO
from protocol.errors import InvalidRequest, KafkaError, SecurityDisabled
from protocol.metadata.credentials import AccessControlEntryRecord
from protocol.primitives import DecodeError
from protocol.schema import EntityClass, field_plans, maker


def require_authorizer(ctx: RequestContext) -> None:
    """Raises SecurityDisabled if this node has no authorizer: then nobody would obey the ACLs."""
    if not ctx.local.config.string("authorizer.class.name"):
        raise SecurityDisabled("No authorizer is configured.")


def require_known(*elements: Any) -> None:
    """Raises DecodeError for the number that means UNKNOWN, which Kafka does not read; it reads all others."""
    for element in elements:
        acl: EntityClass = type(element)
        if 0 in [getattr(element, plan.name) for plan in field_plans(acl) if plan.kind == "int8"]:
            raise DecodeError("an ACL or a filter of ACLs with an UNKNOWN element")


def filter_of(asked: Any) -> AclFilter:
    """The filter of a DescribeAcls request, or one of those of DeleteAcls."""
    return AclFilter(
        asked.resource_type_filter,
        asked.resource_name_filter,
        asked.pattern_type_filter,
        asked.principal_filter,
        asked.host_filter,
        asked.operation,
        asked.permission_type,
    )


def _describe_acls_prepare(_ctx: RequestContext, request: DescribeAclsRequest) -> DescribeAclsRequest:
    require_known(request)
    return request


IN_A_TURN = 1000
"""ACLs that are looked at, or told, before the loop serves others."""

_description, _resource = maker(AclDescription), maker(DescribeAclsResource)


async def _describe_acls(ctx: RequestContext, request: DescribeAclsRequest) -> DescribeAclsResponse:
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


describe_acls = Handler(_describe_acls, prepare=_describe_acls_prepare)


def _create_acls_prepare(_ctx: RequestContext, request: CreateAclsRequest) -> CreateAclsRequest:
    require_known(*request.creations)
    return request


async def _create_acls(ctx: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:
    controller = ctx.controller
    require_authorizer(ctx)
    if any(map(_is_for_filters, request.creations)):
        raise InvalidRequest("An ACL to create may not be a filter: it names one resource type, pattern and operation.")
    acls = [
        AccessControlEntryRecord(
            id=None,
            resource_type=each.resource_type,
            resource_name=each.resource_name,
            pattern_type=each.resource_pattern_type,
            principal=each.principal,
            host=each.host,
            operation=each.operation,
            permission_type=each.permission_type,
        )
        for each in request.creations
    ]
    return await controller.submit(
        lambda image: decide_create(image, acls, controller.around.new_id).map(_create_acls_response)
    )


def _is_for_filters(asked: AclCreation) -> bool:
    """Whether an element means more than one value, which only a filter may say."""
    return 1 in (asked.resource_type, asked.operation, asked.permission_type) or asked.resource_pattern_type in (
        PatternType.ANY,
        PatternType.MATCH,
    )


def _create_acls_response(errors: Sequence[KafkaError | None]) -> CreateAclsResponse:
    return CreateAclsResponse(
        throttle_time=ZERO,
        results=tuple(
            AclCreationResult(error_code=ErrorCode.none, error_message=None)
            if error is None
            else AclCreationResult(error_code=error.code, error_message=error.message)
            for error in errors
        ),
    )


create_acls = Handler(_create_acls, prepare=_create_acls_prepare)


def _delete_acls_prepare(_ctx: RequestContext, request: DeleteAclsRequest) -> DeleteAclsRequest:
    require_known(*request.filters)
    return request


async def _delete_acls(ctx: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse:
    require_authorizer(ctx)
    filters = [filter_of(each) for each in request.filters]
    return await ctx.controller.submit(lambda image: decide_delete(image, filters).map(_delete_acls_response))


def _delete_acls_response(results: Iterable[Deleted]) -> DeleteAclsResponse:
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


delete_acls = Handler(_delete_acls, prepare=_delete_acls_prepare)
