"""What the handlers of the three APIs about ACLs have in common (KIP-140)."""

from __future__ import annotations

from typing import Any

from broker.request_context import RequestContext
from metadata.acls import AclFilter
from protocol.errors import SecurityDisabled
from protocol.primitives import DecodeError
from protocol.schema import EntityClass, field_plans


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
