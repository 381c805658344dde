"""CreateAcls 1-3 (KIP-140): there is no authorizer, so each creation is refused."""

from __future__ import annotations

from typing import NoReturn

from kio.schema.create_acls.v3 import CreateAclsRequest, CreateAclsResponse
from kio.schema.create_acls.v3.response import AclCreationResult

from broker.network.context import RequestContext
from broker.security import no_authorizer
from protocol.durations import ZERO
from protocol.errors import KafkaError


def handle(_ctx: RequestContext, request: CreateAclsRequest) -> NoReturn:
    for acl in request.creations:
        no_authorizer.require_known(acl.resource_type, acl.resource_pattern_type, acl.operation, acl.permission_type)
    raise no_authorizer.refusal()


def error_response(_ctx: RequestContext, request: CreateAclsRequest, error: KafkaError) -> CreateAclsResponse:
    result = AclCreationResult(error_code=error.code, error_message=error.message)
    return CreateAclsResponse(throttle_time=ZERO, results=(result,) * len(request.creations))
