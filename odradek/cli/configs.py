"""`odradek configs list|set|unset`: the configurations of brokers, and the levels of their loggers.

A broker's value comes from what was set for it, else from the cluster-wide default, else from its server.properties,
else it is Kafka's default. A topic's are those of `odradek topics describe` and `alter`, a group's of `groups`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import click
from kafka.admin import ConfigResourceType

from odradek.cli.configurations import DEFAULT, SOURCES, Resource, alter, describe
from odradek.cli.connection import TargetCluster, connected, refusals
from odradek.cli.general import ClusterCommands, pairs
from odradek.cli.output import Output

EVERY = "all"
"""How the cluster-wide default is named."""


@click.group("configs", cls=ClusterCommands)
def main() -> None:
    """List, set and unset configurations of brokers, and levels of their loggers.

    Those of a topic: `odradek topics describe` and `odradek topics alter`.
    """


def _with_brokers(command: Callable[..., None]) -> Callable[..., None]:
    """Give the command the options that say of which brokers; without one, `brokers` is empty."""
    for option in (
        click.option("--loggers", is_flag=True, help="Levels of loggers: kafka.server=DEBUG; of brokers by id."),
        click.option("--all", "cluster_wide", is_flag=True, help="The cluster-wide default of all brokers."),
        click.option(
            "--broker", "brokers", type=click.IntRange(0, 2**31 - 1), multiple=True, help="An id; may be repeated."
        ),
    ):
        command = option(command)
    return command


def _resources(brokers: Collection[int], cluster_wide: bool, loggers: bool) -> list[Resource]:
    """What the options name. Raises UsageError."""
    if loggers and cluster_wide:
        raise click.UsageError("--loggers: each broker has its own, so name brokers by --broker, not --all")
    kind = ConfigResourceType.BROKER_LOGGER if loggers else ConfigResourceType.BROKER
    return [Resource(kind, name) for name in ([""] if cluster_wide else []) + [str(each) for each in brokers]]


def _what(resource: Resource) -> dict[str, str]:
    return {"broker": resource.name or EVERY}


@main.command("list")
@click.argument("keys", nargs=-1, metavar="[KEY]...")
@click.option("--defaults", is_flag=True, help="Also what is nowhere set.")
@_with_brokers
@connected
def list_(
    cluster: TargetCluster,
    out: Output,
    keys: tuple[str, ...],
    defaults: bool,
    brokers: tuple[int, ...],
    cluster_wide: bool,
    loggers: bool,
) -> None:
    """List what is set, or the configurations KEY; by default cluster-wide and of each broker."""
    wanted = _resources(brokers, cluster_wide, loggers)
    if not wanted:
        wanted = _resources(cluster.broker_ids(), not loggers, loggers)
    rows: list[tuple[object, ...]] = []
    for resource in wanted:
        with refusals(out, _what(resource)):
            rows += [
                (
                    _what(resource)["broker"],
                    config.name,
                    "(hidden)" if config.is_sensitive else config.value,
                    SOURCES.get(config.config_source, "unknown"),
                    not config.read_only,
                )
                for config in describe(cluster, resource)
                if (config.name in keys if keys else defaults or config.config_source != DEFAULT)
            ]
    unknown = set(keys) - {row[1] for row in rows}
    # Of the cluster-wide default only what is set is known, so that a key may be missing there alone.
    if unknown and any(resource.name for resource in wanted) and not out.failures:
        raise click.BadParameter(f"no broker has {', '.join(sorted(unknown))}", param_hint="KEY")
    out.table(("broker", "key", "value", "source", "changes_while_it_runs"), rows)


@main.command("set")
@click.argument("values", nargs=-1, required=True, metavar="KEY=VALUE...")
@_with_brokers
@click.option("--dry-run", is_flag=True, help="Only check.")
@connected
def set_(cluster: TargetCluster, out: Output, values: tuple[str, ...], dry_run: bool, **which: Any) -> None:
    """Set configurations of --broker or --all, without a restart: `odradek configs set --all log.retention.ms=60000`.

    `odradek configs list --defaults` says which change while a broker runs.
    """
    _alter(cluster, out, which, dict(pairs(values, "KEY=VALUE")), dry_run)


@main.command()
@click.argument("keys", nargs=-1, required=True, metavar="KEY...")
@_with_brokers
@click.option("--dry-run", is_flag=True, help="Only check.")
@connected
def unset(cluster: TargetCluster, out: Output, keys: tuple[str, ...], dry_run: bool, **which: Any) -> None:
    """Go back to what counts without the value that was set for --broker or --all."""
    _alter(cluster, out, which, dict.fromkeys(keys), dry_run)


def _alter(cluster: TargetCluster, out: Output, which: Any, values: Any, dry_run: bool) -> None:
    resources = _resources(**which)
    if not resources:
        raise click.UsageError("expected --broker ID, or --all for the cluster-wide default of all brokers")
    for resource in resources:
        with refusals(out, _what(resource)):
            alter(cluster, resource, values, dry_run)
            out.result(_what(resource), "would be altered" if dry_run else "altered")
