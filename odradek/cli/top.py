"""`odradek top`: a screen of what a cluster does: records that come in, lag of groups, brokers and their partitions.

Rates are differences of end offsets between two looks, so that any Kafka can be watched; records of open transactions
and control records count. The screen is drawn with plain escape sequences on the terminal's other page, which is left
when the command ends, so that what was there before is there again.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TextIO

import click
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import OffsetSpec

from odradek.cli.connection import TargetCluster, connected
from odradek.cli.general import Seconds
from odradek.cli.output import Output, aligned, shown, titles
from odradek.cli.positions import Offsets
from odradek.terminal import beginning

ENTER, LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
"""The other page without a cursor, and back."""
HOME, CLEAR_LINE, CLEAR_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"


@click.command("top")
@click.option("--every", type=Seconds(3600), default=2.0, show_default=True, metavar="SECONDS", help="Between looks.")
@click.option("--once", is_flag=True, help="One picture; so it is without a terminal, and with --json.")
@click.option("--no-groups", is_flag=True, help="Without groups, of which each costs a request.")
@connected
def main(cluster: TargetCluster, out: Output, every: float, once: bool, no_groups: bool) -> None:
    """Watch a cluster: records a second of each topic, lag of groups, partitions of brokers. Ctrl-C ends it."""
    before, at = ends(cluster), time.monotonic()
    if once or out.as_json or not sys.stdout.isatty():
        time.sleep(every)
        found = picture(cluster, before, at, not no_groups)[0]
        if out.as_json:
            out.document(found)
        else:
            click.echo("\n".join(lines(found)))
        return
    with other_page():
        while True:
            found, before, at = picture(cluster, before, at, not no_groups)
            size = shutil.get_terminal_size()
            drawn = lines(found, size.lines - 1)
            sys.stdout.write(
                HOME
                + "".join(f"{beginning(line, size.columns)}{CLEAR_LINE}\n" for line in drawn[: size.lines - 1])
                + CLEAR_BELOW
            )
            sys.stdout.flush()
            time.sleep(every)


@contextmanager
def other_page() -> Iterator[TextIO]:
    """Give the terminal, on its other page, for the block, which Ctrl-C ends."""
    # Standard output itself has escape sequences written as text (odradek/terminal.py); names are made printable here.
    screen = sys.__stdout__
    if screen is None:
        raise click.ClickException("there is no standard output: --once, with an output")
    screen.write(ENTER)
    try:
        yield screen
    except KeyboardInterrupt:
        pass
    finally:
        screen.write(LEAVE)
        screen.flush()


def _topics(cluster: TargetCluster) -> Mapping[str, Any]:
    return cluster.admin().list_topics(timeout=cluster.timeout).topics


def ends(cluster: TargetCluster, topics: Mapping[str, Any] | None = None) -> Offsets:
    """The end of each partition that has a leader; one that does not answer is left out. Raises KafkaException."""
    wanted = {
        TopicPartition(name, partition.id): OffsetSpec.latest()
        for name, topic in (_topics(cluster) if topics is None else topics).items()
        for partition in topic.partitions.values()
        if partition.leader >= 0
    }
    futures = cluster.admin().list_offsets(wanted, request_timeout=cluster.timeout) if wanted else {}
    return {
        (place.topic, place.partition): future.result().offset
        for place, future in futures.items()
        if future.exception() is None
    }


def picture(
    cluster: TargetCluster, before: Offsets, at: float, with_groups: bool
) -> tuple[dict[str, Any], Offsets, float]:
    """All of the screen as JSON has it, and the ends with their time, for the next. Raises KafkaException."""
    topics, now = _topics(cluster), time.monotonic()
    after = ends(cluster, topics)
    seconds = max(now - at, 1e-3)
    partitions = [(name, each) for name, topic in topics.items() for each in topic.partitions.values()]
    nodes = cluster.admin().describe_cluster(request_timeout=cluster.timeout).result().nodes
    found = {
        "cluster": cluster.bootstrap,
        "records_per_second": _rate(after, before, seconds),
        "partitions": len(partitions),
        "under_replicated": sum(len(each.isrs) < len(each.replicas) for _, each in partitions),
        "without_leader": sum(each.leader < 0 for _, each in partitions),
        "brokers": [
            {
                "broker": node.id,
                "leads": sum(each.leader == node.id for _, each in partitions),
                "replicas": sum(node.id in each.replicas for _, each in partitions),
                "records_per_second": _rate(
                    {
                        (name, each.id): after[name, each.id]
                        for name, each in partitions
                        if each.leader == node.id and (name, each.id) in after
                    },
                    before,
                    seconds,
                ),
            }
            for node in sorted(nodes, key=lambda node: int(node.id))
        ],
        "topics": _of_topics(after, before, seconds),
        "groups": _groups(cluster, after) if with_groups else [],
    }
    return found, after, now


def _rate(after: Offsets, before: Offsets, seconds: float) -> float:
    """Records a second. A partition that is new began at 0; one whose end went back was made anew."""
    grown = sum(max(0, end - before.get(place, 0)) for place, end in after.items())
    return round(grown / seconds, 1)


def _of_topics(after: Offsets, before: Offsets, seconds: float) -> list[dict[str, Any]]:
    """The topics, those with most records first."""
    of: dict[str, Offsets] = {}
    for place, end in after.items():
        of.setdefault(place[0], {})[place] = end
    rows = [
        {
            "topic": name,
            "partitions": len(own),
            "end": sum(own.values()),
            "records_per_second": _rate(own, before, seconds),
        }
        for name, own in sorted(of.items())
    ]
    return sorted(rows, key=lambda row: -float(str(row["records_per_second"])))


def _groups(cluster: TargetCluster, after: Offsets) -> list[dict[str, Any]]:
    """Groups that commit offsets, those with most to read first; one that is refused has no lag."""
    admin = cluster.admin()
    listed = admin.list_consumer_groups(request_timeout=cluster.timeout).result().valid
    rows: list[dict[str, Any]] = []
    asked = {
        group.group_id: admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group.group_id)])
        for group in listed
    }
    for group in listed:
        future = asked[group.group_id][group.group_id]
        lag: int | None = None
        if future.exception() is None:
            lag = sum(
                max(0, after[place.topic, place.partition] - place.offset)
                for place in future.result().topic_partitions
                if place.error is None and place.offset >= 0 and (place.topic, place.partition) in after
            )
        rows.append({"group": group.group_id, "state": group.state.name.lower(), "lag": lag})
    return sorted(rows, key=lambda row: (-(row["lag"] or 0), row["group"]))


def lines(found: Mapping[str, Any], height: int | None = None) -> list[str]:
    """The screen; below a height, the rows of topics and groups that are last are left out."""
    head = (
        f"{found['cluster']}  {found['records_per_second']:g} records/s  {found['partitions']} partitions  "
        f"{found['under_replicated']} under-replicated  {found['without_leader']} without leader"
    )
    blocks = [found[name] for name in ("brokers", "topics", "groups") if found[name]]
    rows = None if height is None else max(1, (height - 1) // max(1, len(blocks)) - 2)
    drawn = [shown(head)]
    for block in blocks:
        drawn += ["", *aligned([titles(block[0]), *(list(row.values()) for row in block[:rows])])]
    return drawn
