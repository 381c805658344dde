"""Several nodes on one machine beside one node and Apache Kafka: `python -m benchmarks.nodes_of_one_machine --help`.

Each node is a process with one event loop, so that one of them uses little more than one core. The nodes have a
controller of ours in a process of its own; the topic has partitions of one replica, spread over them, and the groups
have their coordinators on all of them. The loads are those of benchmarks.many_connections (each connection, to the
leader of its partition, sends one record of 100 bytes and waits for the answer before the next), and the groups of
benchmarks.consumer_protocol, whose members send heartbeats without a pause. The client is one process, and shares the
machine's cores.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import uvloop
from confluent_kafka.admin import AdminClient

from benchmarks import consumer_protocol
from benchmarks.contenders import Kafka, arguments, serving
from benchmarks.figures import Figures, alternating, note, print_table
from benchmarks.many_connections import measure
from benchmarks.measures import Topic
from odradek import Cluster

PARTITIONS = 12
"""As many lead on each of one, two, three, four or six nodes."""


@dataclass
class Nodes:
    """Nodes that run, and how they are called."""

    name: str
    servers: str
    pids: Sequence[int]

    def produce(self, connections: int) -> dict[str, float]:
        with Topic(self.servers, PARTITIONS) as topic:
            rate, cpu = uvloop.run(measure(self._leaders(topic), self.pids, topic, connections))
        return {f"{connections} connections: requests/s": rate, f"{connections} connections: CPU us/request": cpu}

    def _leaders(self, topic: str) -> list[int]:
        """The port of each partition's leader, once the broker that is asked knows them."""
        admin = AdminClient({"bootstrap.servers": self.servers})
        while True:
            found = admin.list_topics(topic, timeout=30)
            leaders = {index: one.leader for index, one in found.topics[topic].partitions.items()}
            if len(leaders) == PARTITIONS and found.brokers.keys() >= set(leaders.values()):
                return [found.brokers[leaders[index]].port for index in range(PARTITIONS)]
            time.sleep(0.05)

    def heartbeats(self) -> dict[str, float]:
        port = int(self.servers.rpartition(":")[2])
        with Topic(self.servers, consumer_protocol.MEMBERS) as topic:
            return uvloop.run(consumer_protocol.heartbeats(port, self.pids, topic))


def ours(count: int, stack: ExitStack) -> Nodes:
    cluster = stack.enter_context(Cluster(count, profile="kafka"))
    pids = [broker.pid for broker in cluster.brokers]
    return Nodes(f"{count} node{'s' if count > 1 else ''}", cluster.bootstrap_servers, pids)


def main() -> None:
    parser = arguments("python -m benchmarks.nodes_of_one_machine", __doc__)
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, nargs="+", default=[50, 500])
    options = parser.parse_args()
    figures: Figures = {}
    with ExitStack() as stack:
        contenders = [ours(options.nodes, stack), ours(1, stack)]
        if not options.alone:
            kafka = stack.enter_context(serving(Kafka(Path(options.kafka))))
            contenders.append(Nodes("kafka", f"127.0.0.1:{kafka.port}", [kafka.pid()]))
        for nodes in contenders:
            nodes.produce(max(options.connections))  # warms up
        for connections in options.connections:
            for nodes in alternating(contenders, options.rounds):
                note(figures, nodes, nodes.produce(connections))
        for nodes in alternating(contenders, options.rounds):
            note(figures, nodes, nodes.heartbeats())
    sys.stdout.write(f"{os.cpu_count()} cores\n")
    print_table(figures, contenders)


if __name__ == "__main__":
    main()
