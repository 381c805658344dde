"""`odradek doctor -b HOST:PORT`: a cluster, as its clients on this machine see it."""

from __future__ import annotations

import socket
from concurrent.futures import Future
from threading import Thread
from typing import Any

import click
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from odradek.cli.connection import Cluster, connected
from odradek.cli.output import Output

CONNECT_S = 5.0


@click.command("doctor")
@connected
def main(cluster: Cluster, out: Output) -> None:
    """Look for what keeps clients on this machine from a cluster; without -b, at this machine as a broker's.

    Each broker's advertised address is looked up and connected to. The exit status is 1 for a problem.
    """
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
        lost = [str(one.id) for one in topic.partitions.values() if one.leader < 0]
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
