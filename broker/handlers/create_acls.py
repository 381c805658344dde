"""CreateAcls 1-3 (KIP-140, KIP-290), decided by `controller.acls`: each ACL is answered in the order of the request.

Deviation: a principal without a type is refused (INVALID_REQUEST). Kafka takes it, and then cannot authorize anybody
for that resource.
"""

from __future__ import annotations

from collections.abc import Sequence

from kio.schema.create_acls.v3 import CreateAclsRequest, CreateAclsResponse
from kio.schema.create_acls.v3.request import AclCreation
from kio.schema.create_acls.v3.response import AclCreationResult
from kio.schema.errors import ErrorCode

from broker.handlers.acl_filters import require_authorizer, require_known
from broker.network.handler import Handler
from broker.request_context import RequestContext
from controller.acls import decide_create
from metadata.acls import PatternType
from protocol.durations import ZERO
from protocol.errors import KafkaError, UnknownServerError
from protocol.metadata.credentials import AccessControlEntryRecord


def _prepare(_ctx: RequestContext, request: CreateAclsRequest) -> CreateAclsRequest:
    require_known(*request.creations)
    return request


async def _create_acls(ctx: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:
    controller = ctx.controller
    require_authorizer(ctx)
    if any(map(_is_for_filters, request.creations)):
        raise UnknownServerError  # this fails the whole request in Kafka
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
    return await controller.submit(lambda image: decide_create(image, acls, controller.around.new_id).map(_response))


def _is_for_filters(asked: AclCreation) -> bool:
    """Whether an element means more than one value, which only a filter may say."""
    return 1 in (asked.resource_type, asked.operation, asked.permission_type) or asked.resource_pattern_type in (
        PatternType.ANY,
        PatternType.MATCH,
    )


def _response(errors: Sequence[KafkaError | None]) -> CreateAclsResponse:
    return CreateAclsResponse(
        throttle_time=ZERO,
        results=tuple(
            AclCreationResult(error_code=ErrorCode.none, error_message=None)
            if error is None
            else AclCreationResult(error_code=error.code, error_message=error.message)
            for error in errors
        ),
    )


create_acls = Handler(_create_acls, prepare=_prepare)
