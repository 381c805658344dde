"""A consumer of 500 partitions that waits for one record at a time: `python -m benchmarks.wide_assignment --help`.

librdkafka names every partition in every Fetch, so this measures the cost of a Fetch per partition without news.
Then the same partitions are filled, 100 bytes a record, and read from their beginnings.
"""

from __future__ import annotations

import statistics
import time

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, Producer, TopicPartition

from benchmarks.compare import compare
from benchmarks.contenders import Contender
from benchmarks.measures import Topic, cpu_seconds

PARTITIONS = 500
TRICKLE_SECONDS = 4.0
WARM_UP = 20
BULK = 200_000


def one_pass(contender: Contender) -> dict[str, float]:
    """Every measure once, by name."""
    bootstrap, pid = f"127.0.0.1:{contender.port}", contender.pid()
    with Topic(bootstrap, PARTITIONS) as topic:
        found = trickle(bootstrap, pid, topic)
    with Topic(bootstrap, PARTITIONS) as topic:
        return found | bulk(bootstrap, pid, topic)


def consumer_of(bootstrap: str, topic: str, offset: int) -> Consumer:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, offset) for partition in range(PARTITIONS)])
    return consumer


def trickle(bootstrap: str, pid: int, topic: str) -> dict[str, float]:
    """Send one record after another, each when the previous one has arrived."""
    consumer = consumer_of(bootstrap, topic, OFFSET_END)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    consumer.consume(1, timeout=6)  # until the ends of all partitions are known, which takes a cold Kafka seconds
    times: list[float] = []
    before = cpu_seconds(pid)
    ends = time.perf_counter() + TRICKLE_SECONDS
    while (began := time.perf_counter()) < ends:
        producer.produce(topic, b"x", partition=len(times) % PARTITIONS)
        producer.poll(0)
        if consumer.poll(30) is None:
            raise RuntimeError(f"record {len(times)} did not come")
        times.append(time.perf_counter() - began)
    cpu = cpu_seconds(pid) - before
    consumer.close()
    return {
        "one record at a time: p50 ms": statistics.median(times[WARM_UP:]) * 1000,
        "one record at a time: broker CPU us": cpu * 1e6 / len(times),
    }


def bulk(bootstrap: str, pid: int, topic: str) -> dict[str, float]:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "queue.buffering.max.messages": BULK})
    before = cpu_seconds(pid)
    began = time.perf_counter()
    for number in range(BULK):
        producer.produce(topic, b"x" * 100, partition=number % PARTITIONS)
        if number % 1000 == 0:
            producer.poll(0)
    producer.flush(120)
    found = {
        "produce, records/s": BULK / (time.perf_counter() - began),
        "produce, broker CPU us/record": (cpu_seconds(pid) - before) * 1e6 / BULK,
    }
    consumer = consumer_of(bootstrap, topic, OFFSET_BEGINNING)
    began = time.perf_counter()
    got = 0
    while got < BULK:
        messages = consumer.consume(10_000, timeout=30)
        if not messages:
            raise RuntimeError(f"only {got} of {BULK} records came")
        got += len(messages)
    found["consume, records/s"] = BULK / (time.perf_counter() - began)
    consumer.close()
    return found


if __name__ == "__main__":
    compare("python -m benchmarks.wide_assignment", __doc__, one_pass)
