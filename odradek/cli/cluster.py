"""`odradek cluster status`."""

from __future__ import annotations

import click

from odradek.cli.connection import Cluster, connected
from odradek.cli.groups_of_commands import ClusterCommands
from odradek.cli.output import Output


@click.group("cluster", cls=ClusterCommands)
def main() -> None:
    """The state of the cluster."""


@main.command()
@connected
def status(cluster: Cluster, out: Output) -> None:
    """Show brokers, controller, and partitions that lack replicas or a leader; the exit status is then 1."""
    admin = cluster.admin()
    about = admin.describe_cluster(request_timeout=cluster.timeout).result()
    topics = admin.list_topics(timeout=cluster.timeout).topics
    partitions = [(name, one) for name, topic in sorted(topics.items()) for _, one in sorted(topic.partitions.items())]
    behind = [f"{name}-{one.id}" for name, one in partitions if len(one.isrs) < len(one.replicas)]
    leaderless = [f"{name}-{one.id}" for name, one in partitions if one.leader < 0]
    brokers = [
        {
            "broker": node.id,
            "address": f"{node.host}:{node.port}",
            "rack": node.rack,
            "leads": sum(one.leader == node.id for _, one in partitions),
            "replicas": sum(node.id in one.replicas for _, one in partitions),
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
        out.lines([["BROKER", "ADDRESS", "RACK", "LEADS", "REPLICAS"], *([*one.values()] for one in brokers)])
    if behind or leaderless:
        raise click.exceptions.Exit(1)
