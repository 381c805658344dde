"""DeleteAcls 1-3 (KIP-140): there is no authorizer, so each filter is refused."""

from __future__ import annotations

from typing import NoReturn

from kio.schema.delete_acls.v3 import DeleteAclsRequest, DeleteAclsResponse
from kio.schema.delete_acls.v3.response import DeleteAclsFilterResult

from broker.network.context import RequestContext
from broker.security import no_authorizer
from protocol.durations import ZERO
from protocol.errors import KafkaError


def handle(_ctx: RequestContext, request: DeleteAclsRequest) -> NoReturn:
    for one in request.filters:
        no_authorizer.require_known(
            one.resource_type_filter, one.pattern_type_filter, one.operation, one.permission_type
        )
    raise no_authorizer.refusal()


def error_response(_ctx: RequestContext, request: DeleteAclsRequest, error: KafkaError) -> DeleteAclsResponse:
    result = DeleteAclsFilterResult(error_code=error.code, error_message=error.message, matching_acls=())
    return DeleteAclsResponse(throttle_time=ZERO, filter_results=(result,) * len(request.filters))
