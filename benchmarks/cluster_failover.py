"""How long clients wait when a leader goes: `python -m benchmarks.cluster_failover --help`.

Three brokers with one topic of one partition, three replicas and min.insync.replicas=2, beside three brokers of Apache
Kafka; all else is Kafka's default, so that a killed broker is missed after its session of nine seconds. A producer with
acks=all sends a record every 10 ms, and a consumer reads them; both are librdkafka with its defaults. The leader is
killed, or stopped in good order, and is started again afterwards. Printed is the longest time between two
acknowledgements, and between two records that the consumer gets.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack

from confluent_kafka import OFFSET_END, Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.cluster import BROKERS, Cluster, running
from benchmarks.contenders import arguments
from benchmarks.figures import Figures, alternating, note, print_table
from tests.client import kafka_node
from tests.cluster.client import leaders, until
from tests.cluster.mixed_cluster import AnyBroker, until_in_sync
from tests.cluster.worker import Worker

TOPIC = "watched"
PAUSE_S = 0.01
SOME = 200
"""So many records show that all goes on again; as many are sent in two seconds."""

SECONDS = 120
EVENTS: dict[str, Callable[[AnyBroker], None]] = {
    "kill -9": lambda leader: leader.kill(),
    "clean stop": lambda leader: leader.end(),
}


class Producing(Worker):
    """Sends, and notes when each record was acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__()
        self.times: list[float] = []
        self.failed: list[KafkaError] = []
        self._producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0})

    def work(self) -> None:
        while not self.told_to_stop.wait(PAUSE_S):
            self._producer.produce(TOPIC, b"v" * 100, partition=0, on_delivery=self._delivered)
            self._producer.poll(0)
        self._producer.flush(SECONDS)

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is None:
            self.times.append(time.monotonic())
        else:
            self.failed.append(error)


class Consuming(Worker):
    """Reads from the end of the topic on, and notes when each record came."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__()
        self.times: list[float] = []
        settings = {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False}
        self._consumer = Consumer(settings | {"log_level": 0})
        self._consumer.assign([TopicPartition(TOPIC, 0, OFFSET_END)])

    def work(self) -> None:
        while not self.told_to_stop.is_set():
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                self.times.append(time.monotonic())
        self._consumer.close()


def until_more(*clients: Producing | Consuming) -> None:
    """Return once each of them has gone on."""
    wanted = [len(client.times) + SOME for client in clients]
    until(
        lambda: all(len(client.times) >= count for client, count in zip(clients, wanted, strict=True)),
        "the clients go on",
        SECONDS,
    )


def longest_gap(times: list[float], since: int) -> float:
    """Seconds, from the time at an index on."""
    return max(later - earlier for earlier, later in itertools.pairwise(times[since:]))


def one_pass(cluster: Cluster) -> dict[str, float]:
    """Let each event happen to whoever leads then; the seconds that it took the clients to go on."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    found: dict[str, float] = {}
    for event, happen in EVENTS.items():
        until_in_sync(admin, BROKERS, only=TOPIC)
        with Producing(cluster.bootstrap) as producer, Consuming(cluster.bootstrap) as consumer:
            until_more(producer, consumer)
            acknowledged, consumed = len(producer.times) - 1, len(consumer.times) - 1
            leader = cluster.brokers[leaders(admin, TOPIC)[0]]
            happen(leader)
            until_more(producer, consumer)
            found[f"{event}: producer waits s"] = longest_gap(producer.times, acknowledged)
            found[f"{event}: consumer waits s"] = longest_gap(consumer.times, consumed)
            leader.start()
        if producer.failed:
            sys.exit(f"{cluster.name}: {len(producer.failed)} records were refused, such as {producer.failed[0]}")
    return found


def main() -> None:
    parser = arguments("python -m benchmarks.cluster_failover", __doc__)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    if reason := kafka_node.missing():
        sys.exit(f"a cluster needs controllers of Apache Kafka: {reason}")
    figures: Figures = {}
    with ExitStack() as stack:
        clusters = [stack.enter_context(running("odradek", BROKERS, 0))]
        if not options.alone:
            clusters.append(stack.enter_context(running("kafka", 0, BROKERS)))
        for cluster in clusters:
            topic = NewTopic(TOPIC, 1, BROKERS, config={"min.insync.replicas": "2"})
            admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
            admin.create_topics([topic])[TOPIC].result(30)
        for cluster in alternating(clusters, options.rounds):
            note(figures, cluster, one_pass(cluster))
    print_table(figures, clusters)


if __name__ == "__main__":
    main()
