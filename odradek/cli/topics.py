"""`odradek topics list|create|describe|alter|delete|trim`."""

from __future__ import annotations

from typing import Any

import click
from confluent_kafka import TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from odradek.cli.connection import TargetCluster, connected, refusals, wait_for_each
from odradek.cli.general import INT32, ClusterCommands, confirm, pairs
from odradek.cli.output import Output
from odradek.cli.positions import FORMS, POSITION, described, resolve, some_partitions_of, with_numbers
from odradek.terminal import printable

INTERNAL = ("__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata")


@click.group("topics", cls=ClusterCommands)
def main() -> None:
    """List, create, describe, alter, delete and trim topics."""


@main.command("list")
@click.option("--internal", is_flag=True, help="Also topics of the cluster's own.")
@connected
def list_(cluster: TargetCluster, out: Output, internal: bool) -> None:
    """List the topics."""
    found = cluster.admin().list_topics(timeout=cluster.timeout).topics
    out.table(
        ("topic", "partitions", "replicas"),
        [
            (
                name,
                len(topic.partitions),
                max((len(partition.replicas) for partition in topic.partitions.values()), default=0),
            )
            for name, topic in sorted(found.items())
            if internal or name not in INTERNAL
        ],
    )


@main.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option("-p", "--partitions", type=INT32, help="Default: the cluster's.")
@click.option("-r", "--replication-factor", type=click.IntRange(1, 2**15 - 1), help="Default: the cluster's.")
@click.option("-c", "--config", "configs", multiple=True, metavar="KEY=VALUE", help="May be repeated.")
@click.option("--if-not-exists", is_flag=True, help="A topic that exists already is no error.")
@click.option("--dry-run", is_flag=True, help="Only check.")
@connected
def create(
    cluster: TargetCluster,
    out: Output,
    names: tuple[str, ...],
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    dry_run: bool,
) -> None:
    """Create topics."""
    config = dict(pairs(configs, "--config"))
    wanted = [NewTopic(name, partitions or -1, replication_factor or -1, config=config) for name in names]
    futures = cluster.admin().create_topics(wanted, validate_only=dry_run, operation_timeout=cluster.timeout)
    no_error = {"TOPIC_ALREADY_EXISTS": "exists already"} if if_not_exists else {}
    wait_for_each(out, "topic", futures, "would be created" if dry_run else "created", no_error=no_error)


@main.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@connected
def describe(cluster: TargetCluster, out: Output, names: tuple[str, ...]) -> None:
    """Describe topics, all by default: partitions (leader, replicas, offsets), and the configurations that were set."""
    admin = cluster.admin()
    names = names or tuple(sorted(set(admin.list_topics(timeout=cluster.timeout).topics) - {*INTERNAL}))
    found = [_described(admin, out, name, about) for name, about in described(admin, out, names).items()]
    if out.as_json:
        out.document(found)
        return
    for topic in found:
        click.echo(f"topic {topic['topic']}  id {topic['topic_id']}")
        for name, value in (topic["configs"] or {}).items():
            click.echo(printable(f"  {name}={value}"))
        out.lines(
            [["PARTITION", "LEADER", "REPLICAS", "ISR", "START", "END"], *(p.values() for p in topic["partitions"])]
        )


def _described(admin: AdminClient, out: Output, name: str, topic: Any) -> dict[str, Any]:
    partitions = [TopicPartition(name, partition.id) for partition in topic.partitions]
    starts = resolve(admin, out, partitions, OffsetSpec.earliest())
    ends = resolve(admin, out, (TopicPartition(*key) for key in starts), OffsetSpec.latest())
    configs: dict[str, str] | None = None
    with refusals(out, {"configurations": name}):
        configs = _configs(admin, name)
    return {
        "topic": name,
        "topic_id": str(topic.topic_id),
        "configs": configs,
        "partitions": [
            {
                "partition": partition.id,
                "leader": partition.leader.id if partition.leader is not None else None,
                "replicas": [node.id for node in partition.replicas],
                "isr": [node.id for node in partition.isr],
                "start": starts.get((name, partition.id)),
                "end": ends.get((name, partition.id)),
            }
            for partition in topic.partitions
        ],
    }


def _configs(admin: AdminClient, name: str) -> dict[str, str]:
    """The configurations that were set for the topic itself."""
    resource = ConfigResource(ResourceType.TOPIC, name)
    found = admin.describe_configs([resource])[resource].result()
    own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    return {
        key: "(hidden)" if entry.is_sensitive else entry.value
        for key, entry in sorted(found.items())
        if getattr(entry.source, "value", entry.source) == own
    }


@main.command()
@click.argument("name")
@click.option("-c", "--config", "configs", multiple=True, metavar="KEY=VALUE", help="Set this; may be repeated.")
@click.option("--unset", multiple=True, metavar="KEY", help="Go back to the default; may be repeated.")
@click.option("-p", "--partitions", type=INT32, help="Have so many partitions.")
@connected
def alter(
    cluster: TargetCluster,
    out: Output,
    name: str,
    configs: tuple[str, ...],
    unset: tuple[str, ...],
    partitions: int | None,
) -> None:
    """Alter the configurations of a topic, or add partitions to it."""
    if "" in unset:
        raise click.BadParameter("it is empty", param_hint="--unset")
    if not (configs or unset or partitions):
        raise click.UsageError("nothing to alter: expected --config, --unset or --partitions")
    entries = [
        ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        for key, value in pairs(configs, "--config")
    ]
    entries += [ConfigEntry(key, None, incremental_operation=AlterConfigOpType.DELETE) for key in unset]
    admin = cluster.admin()
    if entries:
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
        wait_for_each(
            out,
            "topic",
            admin.incremental_alter_configs([resource]),
            "configurations altered",
            lambda resource: resource.name,
        )
    if partitions:
        wait_for_each(
            out, "topic", admin.create_partitions([NewPartitions(name, partitions)]), f"{partitions} partitions"
        )


@main.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option("--if-exists", is_flag=True, help="A topic that does not exist is no error.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@connected
def delete(cluster: TargetCluster, out: Output, names: tuple[str, ...], if_exists: bool, yes: bool) -> None:
    """Delete topics, with all their records."""
    confirm(f"Delete {', '.join(names)}?", yes)
    futures = cluster.admin().delete_topics(list(names), operation_timeout=cluster.timeout)
    no_error = {"UNKNOWN_TOPIC_OR_PARTITION": "does not exist"} if if_exists else {}
    wait_for_each(out, "topic", futures, "deleted", no_error=no_error)


@main.command()
@click.argument("name")
@click.option("--to", "position", type=POSITION, required=True, help=f"Delete the records before this: {FORMS}.")
@click.option(
    "-p", "--partition", "partitions", type=click.IntRange(min=0), multiple=True, help="Only this; may be repeated."
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@connected
def trim(cluster: TargetCluster, out: Output, name: str, position: Any, partitions: tuple[int, ...], yes: bool) -> None:
    """Delete the first records of a topic's partitions."""
    admin = cluster.admin()
    offsets = resolve(admin, out, with_numbers(some_partitions_of(admin, out, [name]), partitions), position)
    confirm(f"Delete the first records of {name}?", yes)
    wanted = [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]
    futures = admin.delete_records(wanted)
    for key, future in sorted(futures.items(), key=lambda item: item[0].partition):
        named = f"{key.topic}-{key.partition}"
        wait_for_each(out, "partition", {named: future}, f"begins at {offsets[key.topic, key.partition]}")
