"""Three brokers beside three of Apache Kafka's, three replicas, acks=all: `python -m benchmarks.cluster --help`.

Each cluster has a controller of Apache Kafka in a JVM of its own, whose CPU time does not count. All brokers stay up,
and the clusters take turns, so that whatever else the machine does affects both; they and the client share its cores.
The CPU time is that of the three brokers together. What replication costs is measured by producing the same to topics
of one replica: the difference is that of two more replicas.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.contenders import arguments
from benchmarks.figures import Figures, alternating, note, print_table
from benchmarks.measures import Pass, Sizes
from tests.client import kafka_node
from tests.cluster.kafka_controllers import KafkaControllers
from tests.cluster.mixed_cluster import AnyBroker, bootstrap, mixed

BROKERS = 3
PRODUCE_CPU = "produce: broker CPU ms/MB"
SINGLES_CPU = "single-record: broker CPU us/request"
JVM = ("-Xmx1g",)
SETTINGS: Mapping[str, object] = {"num.partitions": 1}


@dataclass
class Cluster:
    """Three brokers of one kind."""

    name: str
    brokers: dict[int, AnyBroker]

    @property
    def bootstrap(self) -> str:
        return bootstrap(self.brokers)

    def take_all(self, sizes: Sizes) -> dict[str, float]:
        """Every measure once, by name."""
        pids = [broker.pid for broker in self.brokers.values()]
        found = Pass(self.bootstrap, pids, sizes, BROKERS).run()
        alone = Pass(self.bootstrap, pids, sizes).run()
        return found | {
            "replication: broker CPU ms/MB": found[PRODUCE_CPU] - alone[PRODUCE_CPU],
            "replication of single records: broker CPU us": found[SINGLES_CPU] - alone[SINGLES_CPU],
        }


@contextmanager
def running(name: str, ours: int, theirs: int, settings: Mapping[str, object] = SETTINGS) -> Iterator[Cluster]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="odradek-bench-")))
        controllers = stack.enter_context(KafkaControllers(folder))
        brokers = stack.enter_context(mixed(controllers, folder, ours, theirs, settings, JVM))
        yield Cluster(name, brokers)


def main() -> None:
    parser = arguments("python -m benchmarks.cluster", __doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--bulk", type=int, default=100_000, help="records of 1 KB for the MB/s, a multiple of 1,000")
    parser.add_argument("--singles", type=int, default=15_000, help="single-record requests")
    parser.add_argument("--paced", type=int, default=1_000, help="records, one a millisecond, for the latency")
    options = parser.parse_args()
    if reason := kafka_node.missing():
        sys.exit(f"a cluster needs controllers of Apache Kafka: {reason}")
    sizes = Sizes(options.bulk, options.singles, options.paced)
    figures: Figures = {}
    with ExitStack() as stack:
        clusters = [stack.enter_context(running("odradek", BROKERS, 0))]
        if not options.alone:
            clusters.append(stack.enter_context(running("kafka", 0, BROKERS)))
        for cluster in clusters:
            cluster.take_all(sizes)  # warms up
        for cluster in alternating(clusters, options.rounds):
            note(figures, cluster, cluster.take_all(sizes))
    print_table(figures, clusters)


if __name__ == "__main__":
    main()
