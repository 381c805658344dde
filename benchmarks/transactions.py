"""Small transactions and idempotent producing, beside Apache Kafka's: `python -m benchmarks.transactions --help`.

On a topic of six partitions: transactions of ten records, by one producer and by eight at once, with stock clients
(`benchmarks.transactions_by_client`) and by hand with transactions V2 (`benchmarks.transactions_v2`), with the CPU time
of client and broker for each; and MB/s with idempotence. Both share the machine's cores. A client's limit is what its
own work would allow if it had its cores to itself: no broker makes it faster than that. Java's client is left out if
`make tools` has not downloaded its jars. `--ceiling` measures librdkafka alone, with the mock cluster that it includes.
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
from benchmarks.measures import cpu_seconds
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
"""The partitions of a topic in librdkafka's mock cluster."""

KILOBYTE = b"k" * 1024


def main() -> None:
    options = _options()
    if options.ceiling:
        _print_ceiling(options.count)
        return
    measured = contenders(options.kafka, options.alone)
    works = _works(options.count)
    figures: Figures = {}
    with contextlib.ExitStack() as running:
        for contender in measured:
            running.enter_context(serving(contender))
            for _ in range(options.warm_up):
                _pass(contender, works, options.bulk)
        for contender in alternating(measured, options.rounds):
            note(figures, contender, _pass(contender, works, options.bulk))
    print_table(figures, measured)


def _works(count: int) -> list[Work]:
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
    return works


def _pass(contender: Contender, works: Sequence[Work], bulk: int) -> dict[str, float]:
    bootstrap, pid = f"127.0.0.1:{contender.port}", contender.pid()
    found = {}
    for work in works:
        topic = _new_topic(bootstrap)
        before = cpu_seconds(pid)
        rate, client_cpu_us = work.measure(bootstrap, topic)
        found[f"{work.who}: transactions/s"] = rate
        found[f"{work.who}: broker CPU us"] = (cpu_seconds(pid) - before) * 1e6 / work.ended
        found[f"{work.who}: client CPU us"] = client_cpu_us
        found[f"{work.who}: client's limit, transactions/s"] = work.cores * 1e6 / client_cpu_us
    return found | {"idempotent produce MB/s": _idempotent_bulk(bootstrap, bulk)}


def _idempotent_bulk(bootstrap: str, records: int) -> float:
    """Megabytes per second for records of 1 KB."""
    topic = _new_topic(bootstrap)
    own: dict[str, str | int | bool] = {"linger.ms": 5, "queue.buffering.max.messages": records}
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, **own})
    began = time.perf_counter()
    for number in range(records):
        producer.produce(topic, KILOBYTE, partition=number % PARTITIONS)
    assert producer.flush(SECONDS) == 0
    return records * len(KILOBYTE) / 1e6 / (time.perf_counter() - began)


def _print_ceiling(count: int) -> None:
    for producers in (1, PRODUCERS):
        work = ByLibrdkafka(producers, count, MOCK_PARTITIONS, {"test.mock.num.brokers": 1})
        rates = [work.measure("", "mock").rate for _ in range(3)]
        sys.stdout.write(f"{work.who}, its own mock cluster: {statistics.median(rates):,.0f} transactions/s\n")


def _new_topic(bootstrap: str) -> str:
    topic = f"bench-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(SECONDS)
    return topic


def _options() -> argparse.Namespace:
    parser = arguments("python -m benchmarks.transactions", __doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm-up", type=int, default=3, help="passes before the rounds")
    parser.add_argument("--count", type=int, default=200, help="transactions of the single producer")
    parser.add_argument("--ceiling", action="store_true", help="measure librdkafka alone")
    parser.add_argument("--bulk", type=int, default=100_000, help="records of 1 KB")
    return parser.parse_args()


if __name__ == "__main__":
    main()
