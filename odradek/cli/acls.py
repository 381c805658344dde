"""`odradek acls list|add|remove`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)

from odradek.cli.arguments import confirm
from odradek.cli.connection import Cluster, connected
from odradek.cli.errors import error_name, sentence
from odradek.cli.groups_of_commands import ClusterCommands
from odradek.cli.output import Output

CLUSTER_NAME = "kafka-cluster"
COLUMNS = ("principal", "host", "permission", "operation", "resource", "name", "pattern")
OPERATIONS = [one.name.lower().replace("_", "-") for one in ACLOperation if one.name not in ("UNKNOWN", "ANY")]


@click.group("acls", cls=ClusterCommands)
def main() -> None:
    """List, add and remove access rules."""


def _with_rule(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options that describe rules, or select them."""
    for option in reversed(
        (
            click.option("--principal", metavar="User:NAME", help="Whose rule."),
            click.option("--host", help="From where; * is everywhere."),
            click.option(
                "--operation", "operations", multiple=True, type=click.Choice(OPERATIONS, case_sensitive=False)
            ),
            click.option("--deny", is_flag=True, help="A rule that forbids."),
            click.option("--topic", "topics", multiple=True, metavar="NAME", help="Of a topic; * is all."),
            click.option("--group", "groups", multiple=True, metavar="NAME", help="Of a group."),
            click.option("--transactional-id", "transactional_ids", multiple=True, metavar="NAME"),
            click.option("--delegation-token", "delegation_tokens", multiple=True, metavar="NAME"),
            click.option("--cluster", "of_cluster", is_flag=True, help="Of the cluster itself."),
            click.option("--prefixed", is_flag=True, help="NAME is the beginning of names."),
        )
    ):
        command = option(command)
    return command


def _resources(given: dict[str, Any]) -> list[tuple[ResourceType, str]]:
    kinds = {
        ResourceType.TOPIC: given["topics"],
        ResourceType.GROUP: given["groups"],
        ResourceType.TRANSACTIONAL_ID: given["transactional_ids"],
        ResourceType.DELEGATION_TOKEN: given["delegation_tokens"],
        ResourceType.CLUSTER: (CLUSTER_NAME,) if given["of_cluster"] else (),
    }
    return [(kind, name) for kind, names in kinds.items() for name in names]


def _operations(given: dict[str, Any]) -> list[ACLOperation]:
    return [ACLOperation[one.upper().replace("-", "_")] for one in given["operations"]]


def _filters(given: dict[str, Any]) -> list[ACLFilter]:
    """A filter for each resource and operation that is named; what is not named may be anything."""
    pattern = ACLResourcePatternType.PREFIXED if given["prefixed"] else ACLResourcePatternType.ANY
    permission = ACLPermissionType.DENY if given["deny"] else ACLPermissionType.ANY
    return [
        ACLFilter(given["principal"], given["host"], operation, permission, ResourcePatternFilter(kind, name, pattern))
        for kind, name in _resources(given) or ((ResourceType.ANY, None),)
        for operation in _operations(given) or [ACLOperation.ANY]
    ]


def row(acl: ACL) -> tuple[str, ...]:
    """A rule as a row of COLUMNS."""
    pattern = acl.resource_pattern
    words = (acl.permission_type, acl.operation, pattern.resource_type)
    permission, operation, kind = (one.name.lower().replace("_", "-") for one in words)
    return (
        acl.principal,
        acl.host,
        permission,
        operation,
        kind,
        pattern.resource_name,
        pattern.pattern_type.name.lower(),
    )


@main.command("list")
@_with_rule
@connected
def list_(cluster: Cluster, out: Output, **given: Any) -> None:
    """List the rules, all or those selected."""
    with cluster.python_admin() as admin:
        found = {row(acl) for one in _filters(given) for acl in admin.describe_acls(one)[0]}
    out.table(COLUMNS, sorted(found))


@main.command()
@_with_rule
@connected
def add(cluster: Cluster, out: Output, **given: Any) -> None:
    """Add a rule for each resource and operation; without --operation, for all."""
    resources = _resources(given)
    if not given["principal"] or ":" not in given["principal"]:
        raise click.BadParameter("expected Type:NAME, such as User:app", param_hint="--principal")
    if not resources:
        raise click.UsageError("expected --topic, --group, --transactional-id, --delegation-token or --cluster")
    pattern = ACLResourcePatternType.PREFIXED if given["prefixed"] else ACLResourcePatternType.LITERAL
    permission = ACLPermissionType.DENY if given["deny"] else ACLPermissionType.ALLOW
    with cluster.python_admin() as admin:
        for kind, name in resources:
            for operation in _operations(given) or [ACLOperation.ALL]:
                # The cluster has one name, which is no prefix.
                form = ACLResourcePatternType.LITERAL if kind is ResourceType.CLUSTER else pattern
                acl = ACL(
                    given["principal"], given["host"] or "*", operation, permission, ResourcePattern(kind, name, form)
                )
                what = {"rule": " ".join(row(acl))}
                failed = admin.create_acls([acl])["failed"]
                if failed:
                    out.failure(what, error_name(failed[0]()), sentence(failed[0]()))
                else:
                    out.result(what, "added")


@main.command()
@_with_rule
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@connected
def remove(cluster: Cluster, out: Output, yes: bool, **given: Any) -> None:
    """Remove the rules that are selected."""
    filters = _filters(given)
    if not (given["principal"] or given["host"] or given["operations"] or given["deny"] or _resources(given)):
        raise click.UsageError("expected which rules: --principal, --host, --operation, --deny, --topic, ...")
    confirm("Remove these rules?", yes)
    with cluster.python_admin() as admin:
        for asked, removed, error in admin.delete_acls(filters):
            if error.errno:
                out.failure({"rule": repr(asked)}, error_name(error()), sentence(error()))
            for acl in sorted(removed, key=row):
                out.result({"rule": " ".join(row(acl))}, "removed")
