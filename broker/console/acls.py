"""ACLs: the list, a new one, and the end of one (DescribeAcls, CreateAcls, DeleteAcls)."""

from __future__ import annotations

from typing import Any

from kio.schema.create_acls.v3.request import AclCreation, CreateAclsRequest
from kio.schema.delete_acls.v3.request import DeleteAclsFilter, DeleteAclsRequest
from kio.schema.describe_acls.v3.request import DescribeAclsRequest

from broker.console.ask import Ask, Done, Values
from broker.console.own_client import ask_broker, require
from broker.console.tables import sorted_part, texts, with_forms
from broker.testkit.control.endpoint import ControlError
from metadata.acls import CLUSTER_NAME, AclOperation, PatternType, PermissionType, ResourceType

ON_A_PAGE = 100
ANY = 1
"""Stands for anything in a filter."""

NO_CHOICE = ("UNKNOWN", "ANY", "MATCH")
RESOURCES = tuple(one.name for one in ResourceType if one.name not in NO_CHOICE)
OPERATIONS = tuple(one.name for one in AclOperation if one.name not in NO_CHOICE)
PATTERNS = tuple(one.name for one in PatternType if one.name not in NO_CHOICE)
PERMISSIONS = (PermissionType.ALLOW.name, PermissionType.DENY.name)


COLUMNS = (
    texts("principal", "Principal"),
    texts("host", "Host"),
    texts("permission", "May"),
    texts("operation", "Operation"),
    texts("resource", "Resource"),
    texts("name", "Name"),
)


async def acls(ask: Ask) -> Values:
    """Those that name, principal or operation have what is looked for."""
    answer = await ask_broker(
        ask,
        DescribeAclsRequest(
            resource_type_filter=ANY,
            resource_name_filter=None,
            pattern_type_filter=ANY,
            principal_filter=ask.text("principal") or None,
            host_filter=None,
            operation=ANY,
            permission_type=ANY,
        ),
    )
    require(answer)
    part, resource = ask.text("q").lower(), ask.text("resource")
    found = [
        row
        for each in answer.resources
        for acl in each.acls
        if part in (row := _row(each, acl))["name"].lower() and resource in ("", row["resource"])
    ]
    order, paging = sorted_part(ask, with_forms(ask, COLUMNS), found, ON_A_PAGE)
    return {
        "order": order,
        "paging": paging,
        "q": part,
        "resource": resource,
        "principal": ask.text("principal"),
        "resources": RESOURCES,
        "operations": OPERATIONS,
        "patterns": PATTERNS,
        "permissions": PERMISSIONS,
        "cluster_name": CLUSTER_NAME,
    }


def _row(resource: Any, acl: Any) -> dict[str, str]:
    return {
        "principal": acl.principal,
        "host": acl.host,
        "permission": PermissionType(acl.permission_type).name,
        "operation": AclOperation(acl.operation).name,
        "resource": ResourceType(resource.resource_type).name,
        "name": resource.resource_name,
        "pattern": PatternType(resource.pattern_type).name,
    }


def _named(ask: Ask) -> dict[str, Any]:
    """The fields of the ACL that a form names. Raises ControlError."""
    resource = ask.choice("resource", RESOURCES)
    name = CLUSTER_NAME if resource == ResourceType.CLUSTER.name else ask.needed("name")
    principal = ask.needed("principal")
    if ":" not in principal:
        raise ControlError(f"principal = {principal!r}: expected a type and a name, as User:app", parameter="principal")
    return {
        "resource": ResourceType[resource],
        "name": name,
        "pattern": PatternType[ask.choice("pattern", PATTERNS)],
        "principal": principal,
        "host": ask.text("host") or "*",
        "operation": AclOperation[ask.choice("operation", OPERATIONS)],
        "permission_type": PermissionType[ask.choice("permission", PERMISSIONS)],
    }


async def add(ask: Ask) -> Done:
    named = _named(ask)
    new = AclCreation(
        resource_type=named.pop("resource"),
        resource_name=named.pop("name"),
        resource_pattern_type=named.pop("pattern"),
        **named,
    )
    answer = await ask_broker(ask, CreateAclsRequest(creations=(new,)))
    require(answer.results[0])
    return Done()


async def delete(ask: Ask) -> Done:
    named = _named(ask)
    this_one = DeleteAclsFilter(
        resource_type_filter=named.pop("resource"),
        resource_name_filter=named.pop("name"),
        pattern_type_filter=named.pop("pattern"),
        principal_filter=named.pop("principal"),
        host_filter=named.pop("host"),
        **named,
    )
    answer = await ask_broker(ask, DeleteAclsRequest(filters=(this_one,)))
    (result,) = answer.filter_results
    require(result)
    if not result.matching_acls:
        raise ControlError("there is no such ACL: somebody may have deleted it", status=404)
    return Done()
