"""`odradek client-metrics list|set|delete`: what clients push of their own metrics (KIP-714)."""

from __future__ import annotations

import click
from kafka.admin import ConfigResourceType
from kafka.protocol.admin import ListConfigResourcesRequest

from odradek.cli.configurations import DEFAULT, Resource, alter, describe
from odradek.cli.connection import TargetCluster, connected, refusals
from odradek.cli.durations import DURATION, DURATION_FORMS
from odradek.cli.general import ClusterCommands, confirm, pairs
from odradek.cli.kafka_python import require_no_error
from odradek.cli.output import Output

KIND = ConfigResourceType.CLIENT_METRICS
SELECTORS = "client_id, client_instance_id, client_software_name, client_software_version, client_source_address, ..."


@click.group("client-metrics", cls=ClusterCommands)
def main() -> None:
    """List, set and delete subscriptions to metrics of clients: they push nothing without one."""


@main.command("list")
@connected
def list_(cluster: TargetCluster, out: Output) -> None:
    """List the subscriptions."""
    rows = []
    for name in _names(cluster):
        with refusals(out, {"subscription": name}):
            found = {config.name: config.value for config in describe(cluster, Resource(KIND, name))}
            rows.append((name, found.get("interval.ms"), found.get("metrics"), found.get("match")))
    out.table(("subscription", "interval_ms", "metrics", "match"), rows)


def _names(cluster: TargetCluster) -> list[str]:
    with cluster.python_admin() as admin:
        answer = admin._manager.run(admin._manager.send, ListConfigResourcesRequest(resource_types=[KIND]))
    require_no_error(answer)
    return sorted(each.resource_name for each in answer.config_resources)


@main.command("set")
@click.argument("name")
@click.option("--interval", type=DURATION, help=f"How often clients push: {DURATION_FORMS}.")
@click.option("--metrics", multiple=True, metavar="PREFIX", help="org.apache.kafka.producer., ...; * is all; repeated.")
@click.option("--match", multiple=True, metavar="SELECTOR=REGEX", help=f"Only of these clients, by {SELECTORS}")
@connected
def set_(
    cluster: TargetCluster,
    out: Output,
    name: str,
    interval: int | None,
    metrics: tuple[str, ...],
    match: tuple[str, ...],
) -> None:
    """Subscribe, or change a subscription: `odradek client-metrics set all --metrics '*' --interval 30s`."""
    values: dict[str, str | None] = {}
    if interval is not None:
        values["interval.ms"] = str(interval)
    if metrics:
        values["metrics"] = ",".join(metrics)
    if match:
        values["match"] = ",".join("=".join(pair) for pair in pairs(match, "--match"))
    if not values:
        raise click.UsageError("nothing to set: expected --metrics, --interval or --match")
    alter(cluster, Resource(KIND, name), values)
    out.result({"subscription": name}, "set")


@main.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@connected
def delete(cluster: TargetCluster, out: Output, names: tuple[str, ...], yes: bool) -> None:
    """Delete subscriptions: clients push no more for them."""
    confirm(f"Delete {', '.join(names)}?", yes)
    known = _names(cluster)
    for name in names:
        if name not in known:
            out.failure({"subscription": name}, "RESOURCE_NOT_FOUND", "there is no such subscription")
            continue
        with refusals(out, {"subscription": name}):
            resource = Resource(KIND, name)
            own = [config.name for config in describe(cluster, resource) if config.config_source != DEFAULT]
            alter(cluster, resource, dict.fromkeys(own))
            out.result({"subscription": name}, "deleted")
