"""Small transactions and idempotent producing, beside Apache Kafka's: `python -m benchmarks.transactions --help`.

librdkafka's producers, through confluent-kafka, on a topic of six partitions: transactions of ten records, by one
producer and by eight at once, and megabytes a second with idempotence. The client shares the machine's cores.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
import time
import uuid
from collections.abc import Callable

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.contenders import contenders
from benchmarks.first_record import wait_for_first_record
from benchmarks.run import KAFKA

PARTITIONS = 6
RECORDS = 10
PRODUCERS = 8
SECONDS = 60.0
KILOBYTE = b"k" * 1024

Measure = Callable[[str, str], float]


class Transactions:
    """Transactions a second: each producer ends ``count`` of them."""

    def __init__(self, producers: int, count: int) -> None:
        self.name = f"transactions/s, {producers} producer{'s' if producers > 1 else ''}"
        self._producers = producers
        self._count = count

    def measure(self, bootstrap: str, topic: str) -> float:
        ready = threading.Barrier(self._producers + 1)
        threads = [
            threading.Thread(target=self._work, args=(bootstrap, topic, ready), daemon=True)
            for _ in range(self._producers)
        ]
        for thread in threads:
            thread.start()
        ready.wait(SECONDS)
        began = time.perf_counter()
        for thread in threads:
            thread.join()
        return self._producers * self._count / (time.perf_counter() - began)

    def _work(self, bootstrap: str, topic: str, ready: threading.Barrier) -> None:
        producer = Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": uuid.uuid4().hex, "linger.ms": 0, "log_level": 0}
        )
        producer.init_transactions(SECONDS)
        ready.wait(SECONDS)
        for _ in range(self._count):
            producer.begin_transaction()
            for number in range(RECORDS):
                producer.produce(topic, b"a small record", partition=number % PARTITIONS)
            producer.commit_transaction(SECONDS)


class IdempotentBulk:
    """Megabytes a second of records of 1 KB."""

    name = "idempotent produce MB/s"

    def __init__(self, records: int) -> None:
        self._records = records

    def measure(self, bootstrap: str, topic: str) -> float:
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "queue.buffering.max.messages": self._records,
            }
        )
        began = time.perf_counter()
        for number in range(self._records):
            producer.produce(topic, KILOBYTE, partition=number % PARTITIONS)
        assert producer.flush(SECONDS) == 0
        return self._records * len(KILOBYTE) / 1e6 / (time.perf_counter() - began)


def main() -> None:
    options = _options()
    measured = contenders(options.kafka, options.alone)
    works = [
        Transactions(1, options.count),
        Transactions(PRODUCERS, options.count // 4),
        IdempotentBulk(options.bulk),
    ]
    figures: dict[str, dict[str, list[float]]] = {work.name: {} for work in works}
    try:
        for contender in measured:
            contender.prepare()
            contender.start()
            wait_for_first_record(contender.port)
        for number in range(options.rounds + 1):
            for contender in measured if number % 2 == 0 else reversed(measured):
                bootstrap = f"127.0.0.1:{contender.port}"
                for work in works:
                    figure = work.measure(bootstrap, _new_topic(bootstrap))
                    if number > 0:  # the first round warms up
                        figures[work.name].setdefault(contender.name, []).append(figure)
    finally:
        for contender in measured:
            contender.stop()
    for name, by_contender in figures.items():
        told = ", ".join(f"{who} {statistics.median(found):,.1f}" for who, found in by_contender.items())
        sys.stdout.write(f"{name}: {told}\n")


def _new_topic(bootstrap: str) -> str:
    topic = f"bench-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(SECONDS)
    return topic


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.transactions")
    parser.add_argument("--kafka", default=KAFKA, help="script that runs Kafka's classes (default: %(default)s)")
    parser.add_argument("--alone", action="store_true", help="measure Odradek only")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--count", type=int, default=400, help="transactions of the single producer")
    parser.add_argument("--bulk", type=int, default=100_000, help="records of 1 KB")
    return parser.parse_args()


if __name__ == "__main__":
    main()
