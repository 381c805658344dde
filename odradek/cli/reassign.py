"""`odradek reassign list|start|cancel`."""

from __future__ import annotations

import re
from typing import Any

import click
from kafka import TopicPartition

from odradek.cli.connection import Cluster, connected
from odradek.cli.errors import error_name, sentence
from odradek.cli.groups_of_commands import ClusterCommands
from odradek.cli.output import Output
from odradek.cli.positions import partitions_of


@click.group("reassign", cls=ClusterCommands)
def main() -> None:
    """Move partitions to other brokers."""


@main.command("list")
@connected
def list_(cluster: Cluster, out: Output) -> None:
    """List the reassignments that are under way."""
    with cluster.python_admin() as admin:
        found = admin.list_partition_reassignments()
    rows = [
        (*key, one["replicas"], one["adding_replicas"], one["removing_replicas"]) for key, one in sorted(found.items())
    ]
    out.table(("topic", "partition", "replicas", "adding", "removing"), rows)


@main.command()
@click.argument("moves", nargs=-1, required=True, metavar="TOPIC[:PARTITION]=BROKER,...")
@connected
def start(cluster: Cluster, out: Output, moves: tuple[str, ...]) -> None:
    """Begin to move: `orders:0=1,2,3` has the replicas of the partition on these brokers, the first is preferred."""
    wanted: dict[TopicPartition, list[int] | None] = {}
    for text in moves:
        match = re.fullmatch(r"([^:=]+)(?::(\d+))?=(\d+(?:,\d+)*)", text)
        if match is None:
            raise click.BadParameter(f"{text!r}: expected TOPIC[:PARTITION]=BROKER,...", param_hint="MOVES")
        brokers = [_number(text) for text in match[3].split(",")]
        wanted |= dict.fromkeys(_partitions(cluster, out, match[1], match[2]), brokers)
    _alter(cluster, out, wanted, "reassignment begun")


@main.command()
@click.argument("partitions", nargs=-1, required=True, metavar="TOPIC[:PARTITION]...")
@connected
def cancel(cluster: Cluster, out: Output, partitions: tuple[str, ...]) -> None:
    """Cancel reassignments that are under way."""
    named = [text.partition(":") for text in partitions]
    _alter(
        cluster,
        out,
        {one: None for topic, _, number in named for one in _partitions(cluster, out, topic, number or None)},
        "reassignment cancelled",
    )


def _number(text: str) -> int:
    """The number of a partition or a broker. Raises BadParameter."""
    if not re.fullmatch("[0-9]{1,10}", text) or int(text) >= 2**31:
        raise click.BadParameter(f"{text!r}: expected a number up to {2**31 - 1}", param_hint="TOPIC:PARTITION")
    return int(text)


def _partitions(cluster: Cluster, out: Output, topic: str, number: str | None) -> list[TopicPartition]:
    if number is not None:
        return [TopicPartition(topic, _number(number))]
    return [TopicPartition(topic, one.partition) for one in partitions_of(cluster.admin(), out, [topic])]


def _alter(cluster: Cluster, out: Output, wanted: Any, done: str) -> None:
    if not wanted:
        return
    with cluster.python_admin() as admin:
        results = admin.alter_partition_reassignments(wanted)
    for key, error in sorted(results.items()):
        what = {"partition": f"{key.topic}-{key.partition}"}
        if error is None:
            out.result(what, done)
        else:
            out.failure(what, error_name(error()), sentence(error()))
