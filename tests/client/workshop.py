"""Workers that transform one topic into another, failures of them and of the broker, and what must hold then."""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from tests.client import java_tools
from tests.messages import value_of

SCRIPT = Path(__file__).parent / "transformer.py"
JAVA_SCRIPT = Path(__file__).parent / "java" / "Transformer.java"
CLIENTS = ("confluent-kafka", "aiokafka", "kafka-python", "java")
WORKERS = 3
PARTITIONS = 6
KEYS = 40
SECONDS = 60.0
DOWN_SECONDS = 0.2

SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1000,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
}


def missing(client: str) -> str | None:
    return java_tools.missing() if client == "java" else None


class Servers(Protocol):
    """A broker, or several of a cluster, one of which is killed and comes back."""

    @property
    def bootstrap_servers(self) -> str: ...
    def kill(self) -> None: ...
    def restart(self) -> object: ...


class Workshop:
    """Workers of one kind over two topics. One that ends by itself is replaced; all are killed at the end."""

    def __init__(self, broker: Servers, client: str, name: str, replicas: int = 1) -> None:
        self.broker = broker
        self._replicas = replicas
        self.source, self.sink, self.group = f"{name}-source", f"{name}-sink", f"{name}-group"
        self._client = client
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by the end of the process
        self._workers: list[subprocess.Popen[bytes]] = []
        self._open = True
        self._keeper = threading.Thread(target=self._keep, daemon=True)
        self._lock = threading.Lock()

    def __enter__(self) -> Workshop:
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap_servers})
        topics = [NewTopic(topic, PARTITIONS, self._replicas) for topic in (self.source, self.sink)]
        for made in admin.create_topics(topics).values():
            made.result(SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._open = False
            for worker in self._workers:
                worker.kill()
                worker.wait(SECONDS)

    def start(self) -> None:
        self._workers = [self._start(number) for number in range(WORKERS)]
        self._keeper.start()

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        arguments = [self.broker.bootstrap_servers, self.source, self.sink, self.group, str(number), str(WORKERS)]
        if self._client == "java":
            command = [*java_tools.compiled(JAVA_SCRIPT), *arguments]
        else:
            command = [sys.executable, str(SCRIPT), self._client, *arguments]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=self._errors)

    def _keep(self) -> None:
        while self._open:
            with self._lock:
                for number, worker in enumerate(self._workers):
                    if self._open and worker.poll() is not None:
                        self._workers[number] = self._start(number)
            time.sleep(0.05)

    def kill_worker(self, number: int) -> None:
        """SIGKILL; the keeper starts another."""
        self._workers[number].kill()

    def kill_broker(self) -> None:
        """SIGKILL, and back after a moment."""
        self.broker.kill()
        time.sleep(DOWN_SECONDS)
        self.broker.restart()

    def complaints(self) -> str:
        self._errors.seek(0)
        return self._errors.read()[-4000:].decode(errors="replace")

    # ---- what goes in and comes out

    def fill(self, numbers: Iterable[int]) -> None:
        """A record for each number; those of one key are in one partition, in their order."""
        producer = Producer({"bootstrap.servers": self.broker.bootstrap_servers, "enable.idempotence": True})
        for number in numbers:
            key = number % KEYS
            producer.produce(self.source, b"%d" % number, b"%d" % key, partition=key % PARTITIONS)
            producer.poll(0)
        assert producer.flush(SECONDS) == 0

    def wait_begun(self, seconds: float) -> None:
        """Return when something is committed in the sink."""
        consumer = Consumer({"bootstrap.servers": self.broker.bootstrap_servers, "group.id": "unused"})
        deadline = time.monotonic() + seconds
        try:
            while not any(_end_of(consumer, TopicPartition(self.sink, index)) for index in range(PARTITIONS)):
                assert time.monotonic() < deadline, f"nothing done\n{self.complaints()}"
                time.sleep(0.05)
        finally:
            consumer.close()

    def check(self, count: int, seconds: float) -> None:
        """Wait until the sink has `count` committed records, then check that they are each number once, in order."""
        found = self._read(count, time.monotonic() + seconds)
        numbers: dict[bytes | None, list[int]] = {}
        for key, value in found:
            assert value.startswith(b"seen ")
            numbers.setdefault(key, []).append(int(value[5:]))
        for first in range(min(KEYS, count)):
            assert numbers[b"%d" % first] == list(range(first, count, KEYS)), f"key {first}\n{self.complaints()}"
        self._wait_all_settled(count)

    def _read(self, count: int, deadline: float) -> list[tuple[bytes | None, bytes]]:
        consumer = Consumer(
            {
                "bootstrap.servers": self.broker.bootstrap_servers,
                "group.id": "unused",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        consumer.assign([TopicPartition(self.sink, index, OFFSET_BEGINNING) for index in range(PARTITIONS)])
        found: list[tuple[bytes | None, bytes]] = []
        try:
            while len(found) < count:
                assert time.monotonic() < deadline, f"{len(found)} of {count}\n{self.complaints()}"
                messages = consumer.consume(1000, 0.5)
                found += [(one.key(), value_of(one)) for one in messages if one.error() is None]
            found += [(one.key(), value_of(one)) for one in consumer.consume(1000, 0.5) if one.error() is None]
        finally:
            consumer.close()
        return found

    def _wait_all_settled(self, count: int) -> None:
        """Everything read is committed, and no transaction is left open."""
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap_servers})
        deadline = time.monotonic() + SECONDS
        committed = 0
        while committed != count:
            assert time.monotonic() < deadline, f"{committed} of {count} committed\n{self.complaints()}"
            wanted = [ConsumerGroupTopicPartitions(self.group)]
            offsets = admin.list_consumer_group_offsets(wanted)[self.group].result(SECONDS).topic_partitions
            committed = sum(one.offset for one in offsets)


def _end_of(consumer: Consumer, partition: TopicPartition) -> int:
    """The end of a partition; 0 while its leader is not known."""
    try:
        return int(consumer.get_watermark_offsets(partition, SECONDS)[1])
    except KafkaException:
        return 0


def work_through_harm(shop: Workshop, count: int, deeds: Sequence[str], seed: int, seconds: float) -> None:
    """Send the numbers in portions; the harm begins while the first is worked on, with one deed after each."""
    chance = random.Random(seed)
    portion = count // (len(deeds) + 1)
    shop.fill(range(portion))
    shop.start()
    shop.wait_begun(seconds)
    for number, deed in enumerate(chance.sample(deeds, len(deeds)), start=1):
        first = number * portion
        shop.fill(range(first, count if number == len(deeds) else first + portion))
        time.sleep(chance.uniform(0.0, 0.3))
        if deed == "broker":
            shop.kill_broker()
        else:
            shop.kill_worker(chance.randrange(WORKERS))
    shop.check(count, seconds)
