"""`odradek acls`, `quotas` and `users`: who may do what, how much, and as whom.

kafka-python has the messages of quotas, but no method for them; its connection manager sends them. Users are those of
SCRAM.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from typing import Any

import click
from confluent_kafka.admin import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
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
from kafka.protocol.admin.client_quotas import AlterClientQuotasRequest, DescribeClientQuotasRequest

from odradek.cli.connection import TargetCluster, connected, error_name, sentence, wait_for_each
from odradek.cli.general import ClusterCommands, confirm, read_password
from odradek.cli.kafka_python import require_no_error
from odradek.cli.output import Output

CLUSTER_NAME = "kafka-cluster"
COLUMNS = ("principal", "host", "permission", "operation", "resource", "name", "pattern")
OPERATIONS = [
    operation.name.lower().replace("_", "-") for operation in ACLOperation if operation.name not in ("UNKNOWN", "ANY")
]


class OperationType(click.Choice):  # type: ignore[type-arg]  # before click 8.2 it takes none
    """An operation, in Kafka's spelling too: `DescribeConfigs`, `DESCRIBE_CONFIGS`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        by_letters = {name.replace("-", ""): name for name in OPERATIONS}
        return str(super().convert(by_letters.get(re.sub("[-_]", "", str(value)).lower(), value), param, ctx))


@click.group("acls", cls=ClusterCommands)
def acls() -> None:
    """List, add and remove access rules."""


def _with_rule(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options that describe rules, or select them."""
    for option in reversed(
        (
            click.option("--principal", metavar="User:NAME", help="Whose rule."),
            click.option("--host", help="From where; * is everywhere."),
            click.option("--operation", "operations", multiple=True, type=OperationType(OPERATIONS)),
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
    return [ACLOperation[operation.upper().replace("-", "_")] for operation in given["operations"]]


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
    permission, operation, kind = (word.name.lower().replace("_", "-") for word in words)
    return (
        acl.principal,
        acl.host,
        permission,
        operation,
        kind,
        pattern.resource_name,
        pattern.pattern_type.name.lower(),
    )


@acls.command("list")
@_with_rule
@connected
def list_acls(cluster: TargetCluster, out: Output, **given: Any) -> None:
    """List the rules, all or those selected."""
    with cluster.python_admin() as admin:
        found = {row(acl) for acl_filter in _filters(given) for acl in admin.describe_acls(acl_filter)[0]}
    out.table(COLUMNS, sorted(found))


@acls.command("add")
@_with_rule
@connected
def add_acls(cluster: TargetCluster, out: Output, **given: Any) -> None:
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


@acls.command("remove")
@_with_rule
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@connected
def remove_acls(cluster: TargetCluster, out: Output, yes: bool, **given: Any) -> None:
    """Remove the rules that are selected."""
    filters = _filters(given)
    if not (given["principal"] or given["host"] or given["operations"] or given["deny"] or _resources(given)):
        raise click.UsageError("expected which rules: --principal, --host, --operation, --deny, --topic, ...")
    confirm("Remove these rules?", yes)
    count = 0
    with cluster.python_admin() as admin:
        for asked, removed, error in admin.delete_acls(filters):
            if error.errno:
                out.failure({"rule": repr(asked)}, error_name(error()), sentence(error()))
            for acl in sorted(removed, key=row):
                out.result({"rule": " ".join(row(acl))}, "removed")
                count += 1
    if not count and not out.failures:
        click.echo("there is no such rule", err=True)


DEFAULT = "<default>"
OPTIONS = {"user": "user", "client_id": "client-id", "ip": "ip"}


@click.group("quotas", cls=ClusterCommands)
def quotas() -> None:
    """List, set and remove quotas of users, client ids and addresses."""


def _whose(command: Any) -> Any:
    """The command with the options that name an entity."""
    for name in ("--ip", "--client-id", "--user"):
        command = click.option(name, metavar="NAME", help=f"{DEFAULT} is all that have no quota of their own.")(command)
    return command


def _entity(given: dict[str, str | None]) -> list[tuple[str, str | None]]:
    named = {kind: given[option] for option, kind in OPTIONS.items() if given[option] is not None}
    if not named:
        raise click.UsageError("expected --user, --client-id or --ip")
    return [(kind, None if name == DEFAULT else name) for kind, name in named.items()]


@quotas.command("list")
@connected
def list_quotas(cluster: TargetCluster, out: Output) -> None:
    """List all quotas."""
    with cluster.python_admin() as admin:
        answer = admin._manager.run(admin._manager.send, DescribeClientQuotasRequest(components=[], strict=False))
    require_no_error(answer)
    rows = []
    for entry in answer.entries or ():
        named = {part.entity_type: DEFAULT if part.entity_name is None else part.entity_name for part in entry.entity}
        rows += [(*(named.get(kind) for kind in OPTIONS.values()), value.key, value.value) for value in entry.values]
    out.table(("user", "client_id", "ip", "quota", "value"), sorted(rows, key=lambda row: tuple(map(str, row))))


@quotas.command("set")
@click.argument("quotas", nargs=-1, required=True, metavar="QUOTA=VALUE...")
@_whose
@connected
def set_quotas(cluster: TargetCluster, out: Output, quotas: tuple[str, ...], **given: str | None) -> None:
    """Set quotas: producer_byte_rate, consumer_byte_rate, request_percentage, controller_mutation_rate."""
    wanted = []
    for text in quotas:
        key, _, value = text.partition("=")
        try:
            wanted.append((key, float(value), False))
        except ValueError:
            raise click.BadParameter(f"{text!r}: expected QUOTA=NUMBER", param_hint="QUOTA=VALUE") from None
    _alter(cluster, out, _entity(given), wanted)


@quotas.command("remove")
@click.argument("quotas", nargs=-1, required=True, metavar="QUOTA...")
@_whose
@connected
def remove_quotas(cluster: TargetCluster, out: Output, quotas: tuple[str, ...], **given: str | None) -> None:
    """Remove quotas."""
    _alter(cluster, out, _entity(given), [(key, 0.0, True) for key in quotas])


def _alter(
    cluster: TargetCluster, out: Output, entity: list[tuple[str, str | None]], operations: list[tuple[str, float, bool]]
) -> None:
    entry = AlterClientQuotasRequest.EntryData
    request = AlterClientQuotasRequest(
        entries=[
            entry(
                entity=[entry.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                ops=[entry.OpData(key=key, value=value, remove=gone) for key, value, gone in operations],
            )
        ],
        validate_only=False,
    )
    with cluster.python_admin() as admin:
        answer = admin._manager.run(admin._send_request_to_controller, request)
    shown = " ".join(f"{kind} {DEFAULT if name is None else name}" for kind, name in entity)
    for one in answer.entries:
        require_no_error(one)
        for key, value, gone in operations:
            out.result({"quota": key, "of": shown}, f"removed from {shown}" if gone else f"{value:g} for {shown}")


MECHANISMS = {each.name.replace("_", "-"): each for each in ScramMechanism if each is not ScramMechanism.UNKNOWN}
NAMES = {mechanism: name for name, mechanism in MECHANISMS.items()}
SALT_BYTES = 32


def _users(cluster: TargetCluster) -> dict[str, Any]:
    asked: Any = cluster.admin().describe_user_scram_credentials()
    answer: dict[str, Any] = asked.result()
    return answer


def list_users(cluster: TargetCluster, out: Output) -> None:
    """Print the users, and their mechanisms."""
    rows = [
        (name, NAMES.get(one.mechanism, str(one.mechanism)), one.iterations)
        for name, about in sorted(_users(cluster).items())
        for one in sorted(about.scram_credential_infos, key=lambda info: NAMES.get(info.mechanism, ""))
    ]
    out.table(("user", "mechanism", "iterations"), rows)


def add_user(
    cluster: TargetCluster,
    out: Output,
    name: str,
    mechanisms: Sequence[str],
    iterations: int,
    password_file: str | None,
) -> None:
    """Add a user, or give it a new password."""
    if not name:
        raise click.BadParameter("it is empty", param_hint="NAME")
    password = read_password(password_file)
    admin = cluster.admin()
    for mechanism in dict.fromkeys(mechanisms):
        info = ScramCredentialInfo(MECHANISMS[mechanism], iterations)
        wanted = UserScramCredentialUpsertion(name, info, password.encode(), os.urandom(SALT_BYTES))
        wait_for_each(out, "user", admin.alter_user_scram_credentials([wanted]), f"may log in with {mechanism}")


def delete_user(cluster: TargetCluster, out: Output, name: str, mechanisms: Sequence[str]) -> None:
    """Delete a user, or only some of its mechanisms."""
    about = _users(cluster).get(name)
    had = [info.mechanism for info in about.scram_credential_infos] if about is not None else []
    wanted = [MECHANISMS[mechanism] for mechanism in mechanisms] or had
    if not wanted:
        raise click.ClickException(f"there is no user {name}")
    admin = cluster.admin()
    for mechanism in wanted:
        futures = admin.alter_user_scram_credentials([UserScramCredentialDeletion(name, mechanism)])
        wait_for_each(out, "user", futures, f"may no longer log in with {NAMES[mechanism]}")
