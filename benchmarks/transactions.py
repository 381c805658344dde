"""Small transactions and idempotent producing, beside Apache Kafka's: `python -m benchmarks.transactions --help`.

On a topic of six partitions: transactions of ten records, by one producer and by eight at once, with librdkafka through
confluent-kafka (eight requests each: it adds the partitions first and sends a Produce for every one) and as Kafka's own
client does (`benchmarks.transactions_v2`: two requests); megabytes a second with idempotence. The client shares the
machine's cores. `--ceiling` measures librdkafka alone, with the mock cluster that is part of it: no broker makes it
faster than that.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Protocol

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.contenders import Contender, arguments, contenders, serving
from benchmarks.figures import Figures, alternating, note, print_table
from benchmarks.transactions_v2 import TransactionsV2

PARTITIONS = 6
RECORDS = 10
PRODUCERS = 8
MOCK_PARTITIONS = 4
"""What a topic of librdkafka's mock cluster has."""

SECONDS = 60.0
KILOBYTE = b"k" * 1024


class Work(Protocol):
    """What is measured, by its name, at a bootstrap address and on a topic of its own."""

    name: str

    def measure(self, bootstrap: str, topic: str) -> float: ...


class Transactions:
    """Transactions a second: each producer ends `count` of them."""

    def __init__(self, producers: int, count: int, partitions: int = PARTITIONS) -> None:
        self.name = f"transactions/s by librdkafka, {producers} producer{'s' if producers > 1 else ''}"
        self._producers = producers
        self._count = count
        self._partitions = partitions

    def measure(self, bootstrap: str, topic: str) -> float:
        return self.measure_with({"bootstrap.servers": bootstrap}, topic)

    def measure_with(self, cluster: Mapping[str, str | int], topic: str) -> float:
        """`cluster`: librdkafka's configuration of where it is."""
        ready = threading.Barrier(self._producers + 1)
        threads = [
            threading.Thread(target=self._work, args=(cluster, topic, ready), daemon=True)
            for _ in range(self._producers)
        ]
        for thread in threads:
            thread.start()
        ready.wait(SECONDS)
        began = time.perf_counter()
        for thread in threads:
            thread.join()
        return self._producers * self._count / (time.perf_counter() - began)

    def _work(self, cluster: Mapping[str, str | int], topic: str, ready: threading.Barrier) -> None:
        producer = Producer({**cluster, "transactional.id": uuid.uuid4().hex, "linger.ms": 0, "log_level": 0})
        producer.init_transactions(SECONDS)
        ready.wait(SECONDS)
        for _ in range(self._count):
            producer.begin_transaction()
            for number in range(RECORDS):
                producer.produce(topic, b"a small record", partition=number % self._partitions)
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
    if options.ceiling:
        _print_ceiling(options.count)
        return
    measured = contenders(options.kafka, options.alone)
    works: list[Work] = [
        Transactions(1, options.count),
        Transactions(PRODUCERS, options.count // 4),
        TransactionsV2(1, options.count, RECORDS, PARTITIONS),
        TransactionsV2(PRODUCERS, options.count // 2, RECORDS, PARTITIONS),
        IdempotentBulk(options.bulk),
    ]
    figures: Figures = {}
    with contextlib.ExitStack() as running:
        for contender in measured:
            _pass(running.enter_context(serving(contender)), works)  # warms up
        for contender in alternating(measured, options.rounds):
            note(figures, contender, _pass(contender, works))
    print_table(figures, measured)


def _pass(contender: Contender, works: Sequence[Work]) -> dict[str, float]:
    bootstrap = f"127.0.0.1:{contender.port}"
    return {work.name: work.measure(bootstrap, _new_topic(bootstrap)) for work in works}


def _print_ceiling(count: int) -> None:
    for producers in (1, PRODUCERS):
        work = Transactions(producers, count, MOCK_PARTITIONS)
        rates = [work.measure_with({"test.mock.num.brokers": 1}, "mock") for _ in range(3)]
        sys.stdout.write(f"{work.name}, its own mock cluster: {statistics.median(rates):,.0f}\n")


def _new_topic(bootstrap: str) -> str:
    topic = f"bench-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(SECONDS)
    return topic


def _options() -> argparse.Namespace:
    parser = arguments("python -m benchmarks.transactions", __doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--count", type=int, default=400, help="transactions of the single producer")
    parser.add_argument("--ceiling", action="store_true", help="measure librdkafka alone")
    parser.add_argument("--bulk", type=int, default=100_000, help="records of 1 KB")
    return parser.parse_args()


if __name__ == "__main__":
    main()
