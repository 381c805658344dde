"""DescribeAcls 1-3 (KIP-140): there is no authorizer, so there are no ACLs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from broker.network.context import RequestContext
from broker.security import no_authorizer
from protocol.errors import SecurityDisabled

if TYPE_CHECKING:
    from kio.schema.describe_acls.v3 import DescribeAclsRequest


def handle(_ctx: RequestContext, request: DescribeAclsRequest) -> NoReturn:
    no_authorizer.require_known(
        request.resource_type_filter, request.pattern_type_filter, request.operation, request.permission_type
    )
    raise SecurityDisabled("No Authorizer is configured on the broker")
