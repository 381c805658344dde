"""Small transactions and idempotent producing, beside Apache Kafka's: `python -m benchmarks.transactions --help`.

On a topic of six partitions: transactions of ten records, by one producer and by eight at once, with stock clients
(`benchmarks.transactions_by_client`) and by hand with transactions V2 (`benchmarks.transactions_v2`); megabytes a
second with idempotence. The client shares the machine's cores. Java's client is left out where `make tools` has not
brought its jars. `--ceiling` measures librdkafka alone, with the mock cluster that is part of it: no broker makes it
faster than that.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import time
import uuid
from collections.abc import Sequence

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.contenders import Contender, arguments, contenders, serving
from benchmarks.figures import Figures, alternating, note, print_table
from benchmarks.transactions_by_client import (
    PARTITIONS,
    RECORDS,
    SECONDS,
    ByAiokafka,
    ByJava,
    ByKafkaPython,
    ByLibrdkafka,
    Work,
)
from benchmarks.transactions_v2 import TransactionsV2

PRODUCERS = 8
MOCK_PARTITIONS = 4
"""What a topic of librdkafka's mock cluster has."""

KILOBYTE = b"k" * 1024


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
    works = _works(options.count, options.bulk)
    figures: Figures = {}
    with contextlib.ExitStack() as running:
        for contender in measured:
            _pass(running.enter_context(serving(contender)), works)  # warms up
        for contender in alternating(measured, options.rounds):
            note(figures, contender, _pass(contender, works))
    print_table(figures, measured)


def _works(count: int, bulk: int) -> list[Work]:
    if not ByJava.is_here():
        sys.stderr.write("without Java's client: no java, or no jars (make tools)\n")
    works: list[Work] = []
    for producers, share in ((1, count), (PRODUCERS, count // 4)):
        works += [
            ByAiokafka(producers, share),
            ByKafkaPython(producers, share),
            *([ByJava(producers, share)] if ByJava.is_here() else []),
            ByLibrdkafka(producers, share),
            TransactionsV2(producers, share, RECORDS, PARTITIONS),
        ]
    return [*works, IdempotentBulk(bulk)]


def _pass(contender: Contender, works: Sequence[Work]) -> dict[str, float]:
    bootstrap = f"127.0.0.1:{contender.port}"
    return {work.name: work.measure(bootstrap, _new_topic(bootstrap)) for work in works}


def _print_ceiling(count: int) -> None:
    for producers in (1, PRODUCERS):
        work = ByLibrdkafka(producers, count, MOCK_PARTITIONS, {"test.mock.num.brokers": 1})
        rates = [work.measure("", "mock") for _ in range(3)]
        sys.stdout.write(f"{work.name}, its own mock cluster: {statistics.median(rates):,.0f}\n")


def _new_topic(bootstrap: str) -> str:
    topic = f"bench-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(SECONDS)
    return topic


def _options() -> argparse.Namespace:
    parser = arguments("python -m benchmarks.transactions", __doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--count", type=int, default=200, help="transactions of the single producer")
    parser.add_argument("--ceiling", action="store_true", help="measure librdkafka alone")
    parser.add_argument("--bulk", type=int, default=100_000, help="records of 1 KB")
    return parser.parse_args()


if __name__ == "__main__":
    main()
