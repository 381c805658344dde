"""`odradek elect preferred|unclean`: leaders of partitions."""

from __future__ import annotations

from typing import Any

import click
from confluent_kafka import ElectionType, KafkaError, KafkaException, TopicPartition

from odradek.cli.connection import TargetCluster, connected, refusals
from odradek.cli.general import ClusterCommands, confirm
from odradek.cli.output import Output
from odradek.cli.positions import partitions_of

PARTITIONS = "TOPIC[:PARTITION]"


@click.group("elect", cls=ClusterCommands)
def main() -> None:
    """Elect leaders: the preferred ones, or of necessity replicas that are not in sync."""


@main.command()
@click.argument("partitions", nargs=-1, metavar=f"[{PARTITIONS}]...")
@connected
def preferred(cluster: TargetCluster, out: Output, partitions: tuple[str, ...]) -> None:
    """Let the first replica of each partition lead again, of all partitions by default; nothing is lost."""
    _elect(cluster, out, ElectionType.PREFERRED, _named(cluster, out, partitions) if partitions else None)


@main.command()
@click.argument("partitions", nargs=-1, required=True, metavar=f"{PARTITIONS}...")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@connected
def unclean(cluster: TargetCluster, out: Output, partitions: tuple[str, ...], yes: bool) -> None:
    """Give a partition without a leader one that is not in sync: records that it lacks are lost.

    Only if no replica in sync will come back: start its broker first, if there is a way.
    """
    named = _named(cluster, out, partitions)
    confirm(f"Records that only the lost replicas of {', '.join(partitions)} have will be gone for good. Elect?", yes)
    _elect(cluster, out, ElectionType.UNCLEAN, named)


def _named(cluster: TargetCluster, out: Output, partitions: tuple[str, ...]) -> list[TopicPartition]:
    """The partitions of the arguments. Raises BadParameter."""
    found: list[TopicPartition] = []
    for text in partitions:
        topic, _, number = text.partition(":")
        if number:
            found.append(TopicPartition(topic, click.IntRange(0, 2**31 - 1)(number)))
        else:
            found += partitions_of(cluster.admin(), out, [topic])
    return found


def _elect(cluster: TargetCluster, out: Output, kind: ElectionType, partitions: list[TopicPartition] | None) -> None:
    if partitions == []:
        return
    # confluent-kafka 2.11 to 2.16 fail with a timeout as argument; that of the client counts.
    results: Any = cluster.admin().elect_leaders(kind, partitions).result()
    for place, error in sorted(results.items(), key=lambda item: (item[0].topic, item[0].partition)):
        what = {"partition": f"{place.topic}-{place.partition}"}
        if error is None:
            out.result(what, "elected")
        elif error.code() == KafkaError.ELECTION_NOT_NEEDED:
            if partitions is not None:
                out.result(what, "needs no election")
        else:
            with refusals(out, what):
                raise KafkaException(error)
    if partitions is None and not any(error is None for error in results.values()) and not out.failures:
        out.result({"partition": "all"}, "no partition needs an election")
