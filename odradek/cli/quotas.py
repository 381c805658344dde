"""`odradek quotas list|set|remove`.

kafka-python has the messages of these two APIs, but no method for them; they are sent by its connection manager.
"""

from __future__ import annotations

from typing import Any

import click
from kafka.protocol.admin.client_quotas import AlterClientQuotasRequest, DescribeClientQuotasRequest

from odradek.cli.connection import Cluster, connected
from odradek.cli.errors import require_no_error
from odradek.cli.groups_of_commands import ClusterCommands
from odradek.cli.output import Output

DEFAULT = "<default>"
OPTIONS = {"user": "user", "client_id": "client-id", "ip": "ip"}


@click.group("quotas", cls=ClusterCommands)
def main() -> None:
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


@main.command("list")
@connected
def list_(cluster: Cluster, out: Output) -> None:
    """List all quotas."""
    with cluster.python_admin() as admin:
        answer = admin._manager.run(admin._manager.send, DescribeClientQuotasRequest(components=[], strict=False))
    require_no_error(answer)
    rows = []
    for entry in answer.entries or ():
        named = {one.entity_type: DEFAULT if one.entity_name is None else one.entity_name for one in entry.entity}
        rows += [(*(named.get(kind) for kind in OPTIONS.values()), value.key, value.value) for value in entry.values]
    out.table(("user", "client_id", "ip", "quota", "value"), sorted(rows, key=lambda row: tuple(map(str, row))))


@main.command("set")
@click.argument("quotas", nargs=-1, required=True, metavar="QUOTA=VALUE...")
@_whose
@connected
def set_(cluster: Cluster, out: Output, quotas: tuple[str, ...], **given: str | None) -> None:
    """Set quotas: producer_byte_rate, consumer_byte_rate, request_percentage, controller_mutation_rate."""
    wanted = []
    for text in quotas:
        key, _, value = text.partition("=")
        try:
            wanted.append((key, float(value), False))
        except ValueError:
            raise click.BadParameter(f"{text!r}: expected QUOTA=NUMBER", param_hint="QUOTA=VALUE") from None
    _alter(cluster, out, _entity(given), wanted)


@main.command()
@click.argument("quotas", nargs=-1, required=True, metavar="QUOTA...")
@_whose
@connected
def remove(cluster: Cluster, out: Output, quotas: tuple[str, ...], **given: str | None) -> None:
    """Remove quotas."""
    _alter(cluster, out, _entity(given), [(key, 0.0, True) for key in quotas])


def _alter(
    cluster: Cluster, out: Output, entity: list[tuple[str, str | None]], operations: list[tuple[str, float, bool]]
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
