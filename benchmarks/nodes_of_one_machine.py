"""Several nodes on one machine beside one node: `python -m benchmarks.nodes_of_one_machine --help`.

Each node is a process with one event loop, so that one of them uses little more than one core. The nodes have a
controller of ours in a process of its own; the topic has partitions of one replica, spread over them. The load is that
of benchmarks.many_connections: each connection, to the leader of its partition, sends one record of 100 bytes and waits
for the answer before the next. The client is one process, and shares the machine's cores.
"""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import ExitStack
from dataclasses import dataclass

import uvloop
from confluent_kafka.admin import AdminClient

from benchmarks.figures import Figures, alternating, note, print_table
from benchmarks.many_connections import measure
from benchmarks.measures import Topic
from odradek import Cluster

PARTITIONS = 12
"""As many lead on each of one, two, three, four or six nodes."""


@dataclass
class Nodes:
    """A cluster that runs, and how it is called."""

    name: str
    cluster: Cluster

    def one_pass(self, connections: int) -> dict[str, float]:
        servers = self.cluster.bootstrap_servers
        with Topic(servers, PARTITIONS) as topic:
            self.cluster.wait_in_sync(topic)
            found = AdminClient({"bootstrap.servers": servers}).list_topics(topic, timeout=30)
            partitions = found.topics[topic].partitions
            ports = [found.brokers[partitions[index].leader].port for index in range(PARTITIONS)]
            pids = [broker.pid for broker in self.cluster.brokers]
            rate, cpu = uvloop.run(measure(ports, pids, topic, connections))
        return {f"{connections} connections: requests/s": rate, f"{connections} connections: CPU us/request": cpu}


def main() -> None:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.nodes_of_one_machine",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, nargs="+", default=[50, 500])
    options = parser.parse_args()
    figures: Figures = {}
    with ExitStack() as stack:
        contenders = [
            Nodes(f"{count} node{'s' if count > 1 else ''}", stack.enter_context(Cluster(count, profile="kafka")))
            for count in (options.nodes, 1)
        ]
        for nodes in contenders:
            nodes.one_pass(max(options.connections))  # warms up
        for connections in options.connections:
            for nodes in alternating(contenders, options.rounds):
                note(figures, nodes, nodes.one_pass(connections))
    sys.stdout.write(f"{os.cpu_count()} cores\n")
    print_table(figures, contenders)


if __name__ == "__main__":
    main()
