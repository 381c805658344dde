"""`odradek cluster status`, `reassign`, `doctor -b` and `backup create -b`: the brokers of a cluster.

Their state, partitions that move between them, what keeps clients on this machine from them, and a copy of one's data.
"""

from __future__ import annotations

import re
import socket
from concurrent.futures import Future
from threading import Thread
from typing import Any

import click
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from kafka import TopicPartition
from kafka.errors import IncompatibleBrokerVersion

from odradek.cli import cluster_nodes, features
from odradek.cli.connection import TargetCluster, connected, error_name, sentence
from odradek.cli.general import ClusterCommands
from odradek.cli.kafka_python import require_no_error
from odradek.cli.messages import CreateBackupRequest
from odradek.cli.output import Output
from odradek.cli.positions import partitions_of


@click.group("cluster", cls=ClusterCommands)
def main() -> None:
    """The state of the cluster, its quorum, log directories and features."""


for _command in (cluster_nodes.quorum, cluster_nodes.log_dirs, cluster_nodes.unregister, features.main):
    main.add_command(_command)


@main.command()
@connected
def status(cluster: TargetCluster, out: Output) -> None:
    """Show brokers, controller, and partitions that lack replicas or a leader; the exit status is then 1."""
    admin = cluster.admin()
    about = admin.describe_cluster(request_timeout=cluster.timeout).result()
    topics = admin.list_topics(timeout=cluster.timeout).topics
    partitions = [
        (name, partition) for name, topic in sorted(topics.items()) for _, partition in sorted(topic.partitions.items())
    ]
    behind = [
        f"{name}-{partition.id}" for name, partition in partitions if len(partition.isrs) < len(partition.replicas)
    ]
    leaderless = [f"{name}-{partition.id}" for name, partition in partitions if partition.leader < 0]
    brokers = [
        {
            "broker": node.id,
            "address": f"{node.host}:{node.port}",
            "rack": node.rack,
            "leads": sum(partition.leader == node.id for _, partition in partitions),
            "replicas": sum(node.id in partition.replicas for _, partition in partitions),
        }
        for node in sorted(about.nodes, key=lambda node: int(node.id))
    ]
    found = {
        "cluster_id": about.cluster_id,
        "controller": about.controller.id if about.controller is not None else None,
        "topics": len(topics),
        "partitions": len(partitions),
        "under_replicated": behind,
        "without_leader": leaderless,
        "brokers": brokers,
    }
    if out.as_json:
        out.document(found)
    else:
        out.lines([(name.replace("_", " "), value) for name, value in found.items() if name != "brokers"])
        out.lines([["BROKER", "ADDRESS", "RACK", "LEADS", "REPLICAS"], *([*broker.values()] for broker in brokers)])
    if behind or leaderless:
        raise click.exceptions.Exit(1)


@click.group("reassign", cls=ClusterCommands)
def reassign() -> None:
    """Move partitions to other brokers."""


@reassign.command("list")
@connected
def list_reassignments(cluster: TargetCluster, out: Output) -> None:
    """List the reassignments that are under way."""
    with cluster.python_admin() as admin:
        found = admin.list_partition_reassignments()
    rows = [
        (*key, row["replicas"], row["adding_replicas"], row["removing_replicas"]) for key, row in sorted(found.items())
    ]
    out.table(("topic", "partition", "replicas", "adding", "removing"), rows)


@reassign.command()
@click.argument("moves", nargs=-1, required=True, metavar="TOPIC[:PARTITION]=BROKER,...")
@connected
def start(cluster: TargetCluster, out: Output, moves: tuple[str, ...]) -> None:
    """Begin to move: `orders:0=1,2,3` has the replicas of the partition on these brokers, the first is preferred."""
    wanted: dict[TopicPartition, list[int] | None] = {}
    for text in moves:
        match = re.fullmatch(r"([^:=]+)(?::(\d+))?=(\d+(?:,\d+)*)", text)
        if match is None:
            raise click.BadParameter(f"{text!r}: expected TOPIC[:PARTITION]=BROKER,...", param_hint="MOVES")
        brokers = [_number(text) for text in match[3].split(",")]
        wanted |= dict.fromkeys(_partitions(cluster, out, match[1], match[2]), brokers)
    _alter(cluster, out, wanted, "reassignment begun")


@reassign.command()
@click.argument("partitions", nargs=-1, required=True, metavar="TOPIC[:PARTITION]...")
@connected
def cancel(cluster: TargetCluster, out: Output, partitions: tuple[str, ...]) -> None:
    """Cancel reassignments that are under way."""
    named = [text.partition(":") for text in partitions]
    _alter(
        cluster,
        out,
        {
            partition: None
            for topic, _, number in named
            for partition in _partitions(cluster, out, topic, number or None)
        },
        "reassignment cancelled",
    )


def _number(text: str) -> int:
    """The number of a partition or a broker. Raises BadParameter."""
    if not re.fullmatch("[0-9]{1,10}", text) or int(text) >= 2**31:
        raise click.BadParameter(f"{text!r}: expected a number up to {2**31 - 1}", param_hint="TOPIC:PARTITION")
    return int(text)


def _partitions(cluster: TargetCluster, out: Output, topic: str, number: str | None) -> list[TopicPartition]:
    if number is not None:
        return [TopicPartition(topic, _number(number))]
    return [TopicPartition(topic, partition.partition) for partition in partitions_of(cluster.admin(), out, [topic])]


def _alter(cluster: TargetCluster, out: Output, wanted: Any, done: str) -> None:
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


CONNECT_S = 5.0


def examine(cluster: TargetCluster, out: Output) -> None:
    """Tell what keeps clients on this machine from a cluster: each broker's advertised address is connected to."""
    _, metadata = cluster.reach(lambda admin: _metadata(admin, cluster.timeout))
    out.result({"bootstrap": cluster.bootstrap}, "answers, and lets this client in")
    for _, node in sorted(metadata.brokers.items()):
        what = {"broker": node.id, "address": f"{node.host}:{node.port}"}
        try:
            socket.create_connection((node.host, node.port), CONNECT_S).close()
        except OSError as error:
            out.failure(
                what,
                "NOT_REACHED",
                f"its advertised address {node.host}:{node.port} is not reached from here ({error.strerror or error}): "
                "advertised.listeners must name it as this machine can reach it",
            )
        else:
            out.result(what, f"its advertised address {node.host}:{node.port} is reached from here")
    for name, topic in sorted(metadata.topics.items()):
        lost = [str(partition.id) for partition in topic.partitions.values() if partition.leader < 0]
        if lost:
            out.failure({"topic": name}, "LEADER_NOT_AVAILABLE", f"no leader for partition {', '.join(lost)}")


def _metadata(admin: AdminClient, timeout: float) -> Future[Any]:
    """Ask any broker, and not the controller: that it is not reached may be what is wrong."""
    asked: Future[Any] = Future()

    def ask() -> None:
        try:
            asked.set_result(admin.list_topics(timeout=timeout))
        except KafkaException as error:
            asked.set_exception(error)

    Thread(target=ask, daemon=True).start()
    return asked


PATIENCE_S = 3600.0
"""How long a backup may take, at least: its files may have to be copied."""


def create_backup(cluster: TargetCluster, out: Output, path: str) -> None:
    """Have a broker make a backup, named `path`, in the folder that its setting odradek.backup.folder names."""
    with cluster.python_admin(max(cluster.timeout, PATIENCE_S)) as admin:
        try:
            answer = admin._manager.run(admin._manager.send, CreateBackupRequest(path=path))
        except IncompatibleBrokerVersion as error:
            raise click.ClickException(
                f"the broker at {cluster.bootstrap} makes no backups for its clients: it is another Kafka, or an older "
                "Odradek"
            ) from error
    require_no_error(answer)
    out.result({"backup": answer.path, "bytes": answer.size}, f"{answer.size} bytes")
