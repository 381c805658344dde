"""`odradek groups list|describe|reset-offsets|delete`."""

from __future__ import annotations

from typing import Any

import click
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from odradek.cli.arguments import confirm
from odradek.cli.connection import Cluster, connected, settle
from odradek.cli.errors import name_of, sentence
from odradek.cli.groups_of_commands import Commands
from odradek.cli.output import Output
from odradek.cli.positions import FORMS, POSITION, partitions_of, resolve

TOOLS = {"share": "kafka-share-groups.sh", "streams": "kafka-streams-groups.sh"}
"""What describes the groups that no client library for Python can describe."""


@click.group("groups", cls=Commands)
def main() -> None:
    """List, describe and delete groups, and reset their offsets."""


def kinds(cluster: Cluster) -> dict[str, dict[str, Any]]:
    """All groups, of each kind, by id."""
    with cluster.python_admin() as admin:
        return {one["group_id"]: one for one in admin.list_groups()}


@main.command("list")
@connected
def list_(cluster: Cluster, out: Output) -> None:
    """List the groups of every kind: classic, consumer, share, streams."""
    rows = [
        (name, (one.get("group_type") or "classic").lower(), one.get("group_state"), one.get("protocol_type"))
        for name, one in sorted(kinds(cluster).items())
    ]
    out.table(("group", "type", "state", "protocol"), rows)


@main.command()
@click.argument("names", nargs=-1, required=True, metavar="GROUP...")
@connected
def describe(cluster: Cluster, out: Output, names: tuple[str, ...]) -> None:
    """Describe classic and consumer groups: members, committed offsets, lag."""
    known, admin = kinds(cluster), cluster.admin()
    described = []
    for name in names:
        kind = (known.get(name, {}).get("group_type") or "classic").lower()
        if name not in known:
            out.failure({"group": name}, "GROUP_ID_NOT_FOUND", "GROUP_ID_NOT_FOUND: there is no such group")
        elif kind in TOOLS:
            text = f"it is a {kind} group, which no client library for Python describes; {TOOLS[kind]} of Kafka does"
            out.failure({"group": name}, "UNSUPPORTED", text)
        else:
            described.append(_described(admin, name, kind, known[name]))
    if out.as_json:
        out.document(described)
        return
    for group in described:
        click.echo(f"group {group['group']}  {group['type']}  {group['state']}")
        if group["members"]:
            out.lines([["MEMBER", "CLIENT", "HOST", "ASSIGNED"], *(one.values() for one in group["members"])])
        if group["offsets"]:
            titles = ["TOPIC", "PARTITION", "COMMITTED", "END", "LAG"]
            out.lines([titles, *(one.values() for one in group["offsets"])])


def _described(admin: AdminClient, name: str, kind: str, listed: dict[str, Any]) -> dict[str, Any]:
    about = admin.describe_consumer_groups([name])[name].result()
    committed = _committed(admin, name)
    ends = resolve(admin, committed, OffsetSpec.latest())
    return {
        "group": name,
        "type": kind,
        "state": listed.get("group_state"),
        "members": [
            {
                "member": one.member_id,
                "client": one.client_id,
                "host": one.host,
                "assigned": sorted(f"{each.topic}-{each.partition}" for each in one.assignment.topic_partitions),
            }
            for one in sorted(about.members, key=lambda member: str(member.member_id))
        ],
        "offsets": [
            {
                "topic": one.topic,
                "partition": one.partition,
                "committed": one.offset,
                "end": ends[one.topic, one.partition],
                "lag": ends[one.topic, one.partition] - one.offset,
            }
            for one in committed
        ],
    }


def _committed(admin: AdminClient, name: str) -> list[TopicPartition]:
    found = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(name)])[name].result()
    with_offset = [one for one in found.topic_partitions if one.offset >= 0]
    return sorted(with_offset, key=lambda one: (one.topic, one.partition))


@main.command("reset-offsets")
@click.argument("name", metavar="GROUP")
@click.option("-t", "--topic", "topics", multiple=True, metavar="TOPIC[:PARTITION,...]", help="Default: all committed.")
@click.option("--to", "position", type=POSITION, help=f"{FORMS}.")
@click.option("--by", "shift", type=int, help="Forward by so many records, or back by a negative number.")
@click.option("--dry-run", is_flag=True, help="Only show what would be.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@connected
def reset_offsets(
    cluster: Cluster,
    out: Output,
    name: str,
    topics: tuple[str, ...],
    position: Any,
    shift: int | None,
    dry_run: bool,
    yes: bool,
) -> None:
    """Set the committed offsets of a group that has no members."""
    if (position is None) == (shift is None):
        raise click.UsageError("expected one of --to and --by")
    admin = cluster.admin()
    committed = {(one.topic, one.partition): one.offset for one in _committed(admin, name)}
    chosen = _chosen(admin, topics) if topics else [TopicPartition(*key) for key in committed]
    if not chosen:
        raise click.ClickException(f"group {name} has committed nothing: expected --topic TOPIC")
    starts, ends = resolve(admin, chosen, OffsetSpec.earliest()), resolve(admin, chosen, OffsetSpec.latest())
    if shift is not None:
        wanted = {key: committed.get(key, starts[key]) + shift for key in starts}
    else:
        wanted = resolve(admin, chosen, position)
    new = {key: min(max(offset, starts[key]), ends[key]) for key, offset in sorted(wanted.items())}
    if not dry_run:
        confirm(f"Reset {len(new)} offsets of {name}?", yes)
        _alter(admin, name, new)
    columns = ("topic", "partition", "committed", "new")
    out.table(columns, [(*key, committed.get(key), offset) for key, offset in new.items()])


def _chosen(admin: AdminClient, topics: tuple[str, ...]) -> list[TopicPartition]:
    found = []
    for text in topics:
        topic, _, numbers = text.partition(":")
        every = partitions_of(admin, [topic])
        named = set(numbers.split(",")) if numbers else {str(one.partition) for one in every}
        unknown = named - {str(one.partition) for one in every}
        if unknown:
            raise click.BadParameter(f"{topic} has no partition {min(unknown)}", param_hint="--topic")
        found += [one for one in every if str(one.partition) in named]
    return found


def _alter(admin: AdminClient, name: str, offsets: dict[tuple[str, int], int]) -> None:
    """Raises ClickException if the group refuses."""
    partitions = [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]
    try:
        done = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(name, partitions)])[name].result()
    except KafkaException as error:
        raise click.ClickException(f"group {name}: {sentence(error)} (only a group without members)") from error
    refused = [one for one in done.topic_partitions if one.error is not None]
    if refused:
        names = ", ".join(f"{one.topic}-{one.partition}: {name_of(one.error.code())}" for one in refused)
        raise click.ClickException(f"group {name}: {names} (only a group without members)")


@main.command()
@click.argument("names", nargs=-1, required=True, metavar="GROUP...")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@connected
def delete(cluster: Cluster, out: Output, names: tuple[str, ...], yes: bool) -> None:
    """Delete groups, with their committed offsets."""
    confirm(f"Delete {', '.join(names)}?", yes)
    settle(out, "group", cluster.admin().delete_consumer_groups(list(names)), "deleted")
