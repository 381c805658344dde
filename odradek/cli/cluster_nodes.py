"""`odradek cluster quorum|log-dirs|unregister`: the nodes of a cluster, what they hold, and one that is gone."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import Any

import click

from odradek.cli.connection import TargetCluster, connected, refusals
from odradek.cli.general import confirm
from odradek.cli.kafka_python import name_of, require_no_error
from odradek.cli.known_names import WithKnownNames
from odradek.cli.messages import UnregisterBrokerRequest
from odradek.cli.output import Output


@click.command("quorum", cls=WithKnownNames)
@connected
def quorum(cluster: TargetCluster, out: Output) -> None:
    """List voters and observers of the metadata, how many records each lags, and for how many ms it is silent."""
    with cluster.python_admin() as admin:
        (topic,) = admin.describe_metadata_quorum()["topics"]
    (about,) = topic["partitions"]
    if about["error"]:
        raise click.ClickException(about["error"])
    leader = about["leader_id"]
    ends = {each["replica_id"]: each["log_end_offset"] for each in about["current_voters"]}
    now = time.time() * 1000
    rows = [
        (
            replica["replica_id"],
            "leader" if replica["replica_id"] == leader else kind,
            replica["log_end_offset"],
            max(0, ends[leader] - replica["log_end_offset"]) if leader in ends else None,
            _silence(now, replica.get("last_fetch_timestamp", -1)) if replica["replica_id"] != leader else 0,
        )
        for kind, replicas in (("voter", about["current_voters"]), ("observer", about["observers"]))
        for replica in sorted(replicas, key=lambda replica: int(replica["replica_id"]))
    ]
    columns = ("node", "role", "log_end_offset", "lag", "silent_ms")
    summary = {"leader": leader, "epoch": about["leader_epoch"], "high_watermark": about["high_watermark"]}
    if out.as_json:
        out.document({**summary, "replicas": [dict(zip(columns, row, strict=True)) for row in rows]})
    else:
        out.lines([(name.replace("_", " "), value) for name, value in summary.items()])
        out.table(columns, rows)


def _silence(now: float, timestamp: int) -> int | None:
    return max(0, round(now - timestamp)) if timestamp > 0 else None


@click.command("log-dirs", cls=WithKnownNames)
@click.option("--broker", "brokers", type=click.IntRange(min=0), multiple=True, help="Only of this; may be repeated.")
@click.option("--topic", "topics", multiple=True, metavar="NAME", help="Only of this; may be repeated.")
@click.option("--partitions", "each", is_flag=True, help="A row for each partition, and not for each topic.")
@connected
def log_dirs(
    cluster: TargetCluster, out: Output, brokers: tuple[int, ...], topics: tuple[str, ...], each: bool
) -> None:
    """List the bytes of each topic in each log directory, and how far a replica that moves here has yet to come."""
    known = cluster.broker_ids()
    if unknown := sorted(set(brokers) - set(known)):
        raise click.BadParameter(f"there is no broker {unknown[0]}: there are {known}", param_hint="--broker")
    rows: list[tuple[object, ...]] = []
    for broker, directory in described_log_dirs(cluster, out, list(brokers) or known):
        place = (broker, directory["log_dir"])
        if directory["error_code"]:
            name = name_of(directory["error_code"])
            out.failure({"log_dir": f"{place[0]}:{place[1]}"}, name, name)
            continue
        rows += [(*place, *row) for row in _sizes(directory["topics"], topics, each)]
    out.table(("broker", "log_dir", "partition" if each else "topic", "replicas", "bytes", "moving", "lag"), rows)


def described_log_dirs(cluster: TargetCluster, out: Output, brokers: list[int]) -> list[tuple[int, Any]]:
    """Each log directory with its broker; a broker that does not tell its own is told."""
    found: list[tuple[int, Any]] = []
    with cluster.python_admin() as admin:
        for broker in brokers:
            with refusals(out, {"broker": broker}):
                (answer,) = admin.describe_log_dirs(brokers=[broker])
                found += [(broker, directory) for directory in answer["log_dirs"]]
    return found


def _sizes(topics: Any, wanted: tuple[str, ...], each: bool) -> list[tuple[object, ...]]:
    """Rows of what a directory has: replicas, bytes, how many of them move there, and the records that those lack."""
    found: dict[str, list[Any]] = defaultdict(list)
    for topic in topics:
        if not wanted or topic["name"] in wanted:
            for partition in topic["partitions"]:
                found[f"{topic['name']}-{partition['partition_index']}" if each else topic["name"]].append(partition)
    rows: list[tuple[object, ...]] = []
    for name, partitions in sorted(found.items()):
        moving = [partition for partition in partitions if partition["is_future_key"]]
        lag = sum(partition["offset_lag"] for partition in moving) if moving else None
        size = sum(partition["partition_size"] for partition in partitions)
        rows.append((name, len(partitions), size, len(moving), lag))
    return rows


@click.command("unregister", cls=WithKnownNames)
@click.argument("broker", type=click.IntRange(0, 2**31 - 1))
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@connected
def unregister(cluster: TargetCluster, out: Output, broker: int, yes: bool) -> None:
    """Have the cluster forget a broker that will not come back: its partitions are moved away first (`reassign`)."""
    if broker in cluster.broker_ids():
        raise click.ClickException(f"broker {broker} is alive: stop it first, or it registers again")
    confirm(f"Unregister broker {broker}?", yes)
    with cluster.python_admin() as admin:
        answer = admin._manager.run(admin._manager.send, UnregisterBrokerRequest(broker_id=broker))
    require_no_error(answer)
    out.result({"broker": broker}, "unregistered")
