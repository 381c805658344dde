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
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Self

from confluent_kafka import OFFSET_END, Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.cluster import BROKERS, Cluster, running
from benchmarks.contenders import arguments
from benchmarks.figures import Figures, alternating, note, print_table
from tests.client import kafka_node
from tests.cluster.client import leaders, until
from tests.cluster.mixed_cluster import AnyBroker, until_in_sync

TOPIC = "watched"
PAUSE_S = 0.01
SOME = 200
"""So many records show that all goes on again; as many are sent in two seconds."""

SECONDS = 120
EVENTS: dict[str, Callable[[AnyBroker], None]] = {
    "kill -9": lambda leader: leader.kill(),
    "clean stop": lambda leader: leader.end(),
}


class Watched:
    """A producer and a consumer, a thread each, and when each had an acknowledgement or a record."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged: list[float] = []
        self.consumed: list[float] = []
        self.failed: list[KafkaError] = []
        self._bootstrap = bootstrap
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=work) for work in (self._produce, self._consume)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def until_more(self) -> None:
        """Return once both have gone on."""
        for times in (self.acknowledged, self.consumed):
            wanted = len(times) + SOME
            until(lambda times=times, wanted=wanted: len(times) >= wanted, "the clients go on", SECONDS)  # type: ignore[misc]

    def _produce(self) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap, "acks": "all", "log_level": 0})
        while not self._ended.wait(PAUSE_S):
            producer.produce(TOPIC, b"v" * 100, partition=0, on_delivery=self._delivered)
            producer.poll(0)
        producer.flush(SECONDS)

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is None:
            self.acknowledged.append(time.monotonic())
        else:
            self.failed.append(error)

    def _consume(self) -> None:
        settings = {"bootstrap.servers": self._bootstrap, "group.id": "unused", "enable.auto.commit": False}
        consumer = Consumer(settings | {"log_level": 0})
        consumer.assign([TopicPartition(TOPIC, 0, OFFSET_END)])
        while not self._ended.is_set():
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                self.consumed.append(time.monotonic())
        consumer.close()


def longest_gap(times: list[float], since: int) -> float:
    """Seconds, from the time at an index on."""
    return max(later - earlier for earlier, later in itertools.pairwise(times[since:]))


def one_pass(cluster: Cluster) -> dict[str, float]:
    """Let each event happen to whoever leads then; the seconds that it took the clients to go on."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    found: dict[str, float] = {}
    for event, happen in EVENTS.items():
        until_in_sync(admin, BROKERS, only=TOPIC)
        with Watched(cluster.bootstrap) as clients:
            clients.until_more()
            before = len(clients.acknowledged) - 1, len(clients.consumed) - 1
            leader = cluster.brokers[leaders(admin, TOPIC)[0]]
            happen(leader)
            clients.until_more()
            found[f"{event}: producer waits s"] = longest_gap(clients.acknowledged, before[0])
            found[f"{event}: consumer waits s"] = longest_gap(clients.consumed, before[1])
            leader.start()
        if clients.failed:
            sys.exit(f"{cluster.name}: {len(clients.failed)} records were refused, such as {clients.failed[0]}")
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
            AdminClient({"bootstrap.servers": cluster.bootstrap}).create_topics([topic])[TOPIC].result(30)
        for cluster in alternating(clusters, options.rounds):
            note(figures, cluster, one_pass(cluster))
    print_table(figures, clusters)


if __name__ == "__main__":
    main()
