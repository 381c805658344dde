"""`odradek groups list|describe|reset-offsets|delete-offsets|delete`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from odradek.cli.connection import TargetCluster, client_errors, connected, refusals, sentence, wait_for_each
from odradek.cli.general import LARGEST, ClusterCommands, confirm
from odradek.cli.group_kinds import KINDS, GroupKind, Places, Rows, kind_of, listed, require_kind, unknown_kind
from odradek.cli.kafka_python import name_of
from odradek.cli.output import Output
from odradek.cli.positions import FORMS, POSITION, Offsets, partitions_of, resolve, within
from odradek.terminal import printable


@click.group("groups", cls=ClusterCommands)
def main() -> None:
    """List, describe and delete groups, and reset or delete their offsets."""


@main.command("list")
@connected
def list_(cluster: TargetCluster, out: Output) -> None:
    """List the groups of every kind: classic, consumer, share, streams."""
    rows = [
        (name, kind_of(one), one.get("group_state"), one.get("protocol_type"))
        for name, one in sorted(listed(cluster, out).items())
    ]
    out.table(("group", "type", "state", "protocol"), rows)


@main.command()
@click.argument("names", nargs=-1, metavar="[GROUP]...")
@connected
def describe(cluster: TargetCluster, out: Output, names: tuple[str, ...]) -> None:
    """Describe groups of any kind, all by default: members, offsets, lag."""
    known = listed(cluster, out)
    described = []
    for name in dict.fromkeys(names or sorted(known)):
        if name in known:
            described.append(_described(cluster, out, name, known[name]))
        else:
            _tell_unlisted(cluster, out, name)
    if out.as_json:
        out.document(described)
        return
    for group in described:
        click.echo(printable(f"group {group['group']}  {group['type']}  {group['state']}"))
        for rows in (group["members"], group["offsets"]):
            if rows:
                out.table(list(rows[0]), [list(row.values()) for row in rows])


def _tell_unlisted(cluster: TargetCluster, out: Output, name: str) -> None:
    """Tell why a group is not among those listed: the cluster lists only those that one may see."""
    with refusals(out, {"group": name}):
        cluster.admin().describe_consumer_groups([name])[name].result()
        out.failure({"group": name}, "GROUP_ID_NOT_FOUND", "GROUP_ID_NOT_FOUND: there is no such group")


def _described(cluster: TargetCluster, out: Output, name: str, group: Mapping[str, Any]) -> dict[str, Any]:
    kind = KINDS.get(kind_of(group))
    members, offsets, assigned = Rows(), Rows(), Places()
    if kind is None:
        out.failure({"group": name}, "UNSUPPORTED_TYPE", unknown_kind(group))
    else:
        with refusals(out, {"group": name}):
            members, assigned = kind.members(cluster, name)
        with refusals(out, {"group": name}):
            offsets = kind.offsets(cluster, out, name, assigned)
    return {
        "group": name,
        "type": kind_of(group),
        "state": group.get("group_state"),
        "members": sorted(members, key=lambda member: str(member["member"])),
        "offsets": offsets,
    }


@main.command("reset-offsets")
@click.argument("name", metavar="GROUP")
@click.option("-t", "--topic", "topics", multiple=True, metavar="TOPIC[:PARTITION,...]", help="Default: all committed.")
@click.option("--to", "position", type=POSITION, help=f"{FORMS}.")
@click.option(
    "--by",
    "shift",
    type=click.IntRange(-LARGEST, LARGEST),
    help="Forward by so many records, or back by a negative number.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@connected
def reset_offsets(
    cluster: TargetCluster,
    out: Output,
    name: str,
    topics: tuple[str, ...],
    position: Any,
    shift: int | None,
    dry_run: bool,
    yes: bool,
) -> None:
    """Set the offsets of a group that has no members."""
    if (position is None) == (shift is None):
        raise click.UsageError("expected one of --to and --by")
    admin, kind = cluster.admin(), require_kind(listed(cluster, out).get(name, {}))
    rows = kind.offsets(cluster, out, name, set())
    current = {(row["topic"], row["partition"]): row[kind.standing] for row in rows}
    chosen = _chosen(admin, out, topics) if topics else [TopicPartition(*key) for key in current]
    if not chosen:
        if out.failures:
            out.end()
        raise click.ClickException(f"group {name} has no offsets: expected --topic TOPIC")
    if shift is not None:
        starts = resolve(admin, out, chosen, OffsetSpec.earliest())
        bases = {key: start if current.get(key) is None else current[key] for key, start in starts.items()}
        wanted = {key: base + shift for key, base in bases.items()}
    else:
        wanted = resolve(admin, out, chosen, position)
    new = within(admin, out, wanted)
    if new and not dry_run:
        confirm(f"Reset {len(new)} offsets of {name}?", yes)
        new = _altered(cluster, out, kind, name, new)
    keys = sorted({(place.topic, place.partition) for place in chosen})
    columns = ("topic", "partition", kind.standing, "new")
    out.table(columns, [(*key, current.get(key), new.get(key)) for key in keys])


def _chosen(admin: AdminClient, out: Output, topics: tuple[str, ...]) -> list[TopicPartition]:
    found = []
    for text in topics:
        topic, _, numbers = text.partition(":")
        every = partitions_of(admin, out, [topic])
        named = set(numbers.split(",")) if numbers and every else {str(place.partition) for place in every}
        unknown = named - {str(place.partition) for place in every}
        if unknown:
            raise click.BadParameter(f"{topic} has no partition {min(unknown)}", param_hint="--topic")
        found += [place for place in every if str(place.partition) in named]
    return found


def _altered(cluster: TargetCluster, out: Output, kind: GroupKind, name: str, offsets: Offsets) -> Offsets:
    """Set the offsets; returns those that are set, and tells of the others. Raises ClickException."""
    try:
        refused = kind.alter(cluster, name, offsets)
    except client_errors() as error:
        raise click.ClickException(f"group {name}: {sentence(error)} (only a group without members)") from error
    for (topic, partition), code in refused.items():
        text = f"{name_of(code)} (only a group without members)"
        out.failure({"partition": f"{topic}-{partition}"}, name_of(code), text)
    return {key: offset for key, offset in offsets.items() if key not in refused}


@main.command("delete-offsets")
@click.argument("name", metavar="GROUP")
@click.option("-t", "--topic", "topics", multiple=True, required=True, metavar="TOPIC[:PARTITION,...]")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@connected
def delete_offsets(cluster: TargetCluster, out: Output, name: str, topics: tuple[str, ...], yes: bool) -> None:
    """Delete the offsets of a group in topics that no member reads; of a share group in whole topics."""
    kind = require_kind(listed(cluster, out).get(name, {}))
    chosen = {(place.topic, place.partition) for place in _chosen(cluster.admin(), out, topics)}
    if not chosen:
        return
    confirm(f"Delete the offsets of {name} in {', '.join(topics)}?", yes)
    for place, code in sorted(kind.delete(cluster, name, chosen).items()):
        if code:
            out.failure({"offsets": place}, name_of(code), name_of(code))
        else:
            out.result({"offsets": place}, "deleted")


@main.command()
@click.argument("names", nargs=-1, required=True, metavar="GROUP...")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@connected
def delete(cluster: TargetCluster, out: Output, names: tuple[str, ...], yes: bool) -> None:
    """Delete groups of any kind, with their offsets."""
    confirm(f"Delete {', '.join(names)}?", yes)
    wait_for_each(out, "group", cluster.admin().delete_consumer_groups(list(dict.fromkeys(names))), "deleted")
