"""What is measured of a running broker, each time with librdkafka (confluent-kafka) on a new six-partition topic.

Otherwise librdkafka's defaults apply: no compression, no idempotence, batches of at most 1 MB, 1 MB fetched per
partition at a time. With either contender, the client shares the machine's cores with the broker. The CPU time of the
broker's own process is measured too, since it does not depend on what else the machine does.
"""

from __future__ import annotations

import os
import random
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

PARTITIONS = 6
RECORD_BYTES = 1000
MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much one pass sends: records in bulk, single-record requests, and paced records for the latency."""

    bulk: int
    singles: int
    paced: int


class Topic:
    """A topic for one pass, deleted at the end of its block."""

    def __init__(self, bootstrap: str, partitions: int = PARTITIONS, replicas: int = 1) -> None:
        self.name = f"bench-{uuid.uuid4().hex[:8]}"
        self._partitions = partitions
        self._replicas = replicas
        self._admin = AdminClient({"bootstrap.servers": bootstrap})

    def __enter__(self) -> str:
        self._admin.create_topics([NewTopic(self.name, self._partitions, self._replicas)])[self.name].result(30)
        return self.name

    def __exit__(self, *_: object) -> None:
        self._admin.delete_topics([self.name])[self.name].result(30)


class Pass:
    """One pass over a broker, or a cluster of `pids` and topics of so many replicas: every measure once, by name."""

    def __init__(self, bootstrap: str, pids: Sequence[int], sizes: Sizes, replicas: int = 1) -> None:
        self._bootstrap = bootstrap
        self._pids = pids
        self._sizes = sizes
        self._replicas = replicas
        self.found: dict[str, float] = {}

    def run(self) -> dict[str, float]:
        bootstrap, sizes, found = self._bootstrap, self._sizes, self.found
        megabytes = sizes.bulk * RECORD_BYTES / MEGABYTE
        with self._topic() as topic:
            with self._cpu("produce: broker CPU ms/MB", 1000 / megabytes):
                found["produce MB/s"] = _produce(bootstrap, topic, sizes.bulk)
            with self._cpu("consume: broker CPU ms/MB", 1000 / megabytes):
                found["consume MB/s"] = _consume(bootstrap, topic, sizes.bulk)
        if shutil.which("kcat"):
            with self._topic() as topic:
                found["produce MB/s (kcat)"] = _produce_with_kcat(bootstrap, topic, sizes.bulk)
                found["consume MB/s (kcat)"] = _consume_with_kcat(bootstrap, topic, sizes.bulk)
        with self._topic() as topic, self._cpu("single-record: broker CPU us/request", 1e6 / sizes.singles):
            found["single-record produce requests/s"] = _singles(bootstrap, topic, sizes.singles)
        with self._topic() as topic:
            latencies = _latencies(bootstrap, topic, sizes.paced)
            percentiles = statistics.quantiles(latencies, n=100)
            found["end to end p50 ms"] = percentiles[49] * 1000
            found["end to end p99 ms"] = percentiles[98] * 1000
        return found

    def _topic(self) -> Topic:
        return Topic(self._bootstrap, replicas=self._replicas)

    @contextmanager
    def _cpu(self, measure: str, scale: float) -> Iterator[None]:
        before = sum(map(cpu_seconds, self._pids))
        yield
        self.found[measure] = (sum(map(cpu_seconds, self._pids)) - before) * scale


def cpu_seconds(pid: int) -> float:
    """User and system time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _payloads() -> list[bytes]:
    chance = random.Random(1)
    return [chance.randbytes(RECORD_BYTES) for _ in range(100)]


def _send_all(producer: Producer, topic: str, payloads: list[bytes], count: int) -> float:
    """Seconds until `count` records, distributed over the partitions in turn, are acknowledged."""
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failures.append(error)

    began = time.perf_counter()
    for number in range(count):
        while True:
            try:
                producer.produce(
                    topic, payloads[number % len(payloads)], partition=number % PARTITIONS, on_delivery=delivered
                )
                break
            except BufferError:
                producer.poll(0.05)
        if number % 1000 == 0:
            producer.poll(0)
    left = producer.flush(120)
    took = time.perf_counter() - began
    if left or failures:
        raise RuntimeError(f"{left} records left, failures: {failures[:3]}")
    return took


def _produce(bootstrap: str, topic: str, count: int) -> float:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "queue.buffering.max.messages": 200_000})
    return count * RECORD_BYTES / MEGABYTE / _send_all(producer, topic, _payloads(), count)


def _singles(bootstrap: str, topic: str, count: int) -> float:
    conf = {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0, "batch.num.messages": 1}
    payload = random.Random(2).randbytes(100)
    return count / _send_all(Producer(conf), topic, [payload], count)


def _consume(bootstrap: str, topic: str, count: int) -> float:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False})
    began = time.perf_counter()
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(PARTITIONS)])
    got = 0
    while got < count:
        messages = consumer.consume(10_000, timeout=30)
        if not messages:
            raise RuntimeError(f"only {got} of {count} records came")
        got += len(messages)
    took = time.perf_counter() - began
    consumer.close()
    return count * RECORD_BYTES / MEGABYTE / took


def _produce_with_kcat(bootstrap: str, topic: str, count: int) -> float:
    """Measure a client that costs less than Python does: it assigns the lines of a file to random partitions."""
    with tempfile.NamedTemporaryFile(prefix="odradek-bench-") as lines:
        chance = random.Random(1)
        block = b"".join(chance.randbytes((RECORD_BYTES - 1) // 2).hex().encode() + b".\n" for _ in range(1000))
        for _ in range(count // 1000):
            lines.write(block)
        lines.flush()
        command = ["kcat", "-P", "-b", bootstrap, "-t", topic, "-X", "acks=all", "-l", lines.name]
        began = time.perf_counter()
        subprocess.run(command, check=True, timeout=120, stdout=subprocess.DEVNULL)
        return count * RECORD_BYTES / MEGABYTE / (time.perf_counter() - began)


def _consume_with_kcat(bootstrap: str, topic: str, count: int) -> float:
    command = ["kcat", "-C", "-q", "-b", bootstrap, "-t", topic, "-o", "beginning", "-c", str(count), "-f", ""]
    began = time.perf_counter()
    subprocess.run(command, check=True, timeout=120, stdout=subprocess.DEVNULL)
    return count * RECORD_BYTES / MEGABYTE / (time.perf_counter() - began)


def _latencies(bootstrap: str, topic: str, count: int) -> list[float]:
    """Seconds from passing a record to the producer to getting it from the consumer, one record per millisecond."""
    sent: list[float] = []
    latencies: list[float] = []
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, OFFSET_END) for partition in range(PARTITIONS)])
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0})
    warm = threading.Event()

    def read() -> None:
        while len(latencies) < count:
            message = consumer.poll(30)
            value = None if message is None else message.value()
            if value is None:
                raise RuntimeError(f"only {len(latencies)} of {count} records came")
            now = time.perf_counter()
            if value.startswith(b"warm"):
                warm.set()
            else:
                latencies.append(now - sent[int(value[:8])])

    reader = threading.Thread(target=read)
    reader.start()
    while not warm.wait(0.05):
        producer.produce(topic, b"warm", partition=0)
        producer.flush(30)
    padding = b"x" * (RECORD_BYTES - 8)
    for number in range(count):
        sent.append(time.perf_counter())
        producer.produce(topic, b"%08d" % number + padding, partition=number % PARTITIONS)
        producer.poll(0)
        time.sleep(0.001)
    producer.flush(30)
    reader.join()
    consumer.close()
    return latencies
