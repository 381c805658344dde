"""Small transactions by stock clients: how many a second their producers end, all at once."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import uvloop
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer
from kafka import KafkaProducer

PARTITIONS = 6
RECORDS = 10
RECORD = b"a small record"
SECONDS = 60.0

JAVA_PROGRAM = Path(__file__).with_name("Transactions.java")
JAVA_JARS = Path(__file__).parents[1] / "build" / "java"
"""Where `make tools` puts Apache Kafka's jars."""


class Work(Protocol):
    """What is measured, by its name, at a bootstrap address and on a topic of its own."""

    name: str

    def measure(self, bootstrap: str, topic: str) -> float: ...


def measure_name(client: str, producers: int) -> str:
    return f"transactions/s by {client}, {producers} producer{'s' if producers > 1 else ''}"


class _Threads(ABC):
    """A client whose calls block: each producer has a thread, and ends `count` transactions."""

    client: str

    def __init__(self, producers: int, count: int) -> None:
        self.name = measure_name(self.client, producers)
        self._producers = producers
        self._count = count

    @abstractmethod
    def _started(self, bootstrap: str) -> Any:
        """A producer with a transactional id of its own, ready for its first transaction."""

    @abstractmethod
    def _transaction(self, producer: Any, topic: str) -> None: ...

    def measure(self, bootstrap: str, topic: str) -> float:
        ready = threading.Barrier(self._producers + 1)

        def work() -> None:
            producer = self._started(bootstrap)
            ready.wait(SECONDS)
            for _ in range(self._count):
                self._transaction(producer, topic)

        threads = [threading.Thread(target=work, daemon=True) for _ in range(self._producers)]
        for thread in threads:
            thread.start()
        ready.wait(SECONDS)
        began = time.perf_counter()
        for thread in threads:
            thread.join()
        return self._producers * self._count / (time.perf_counter() - began)


class ByLibrdkafka(_Threads):
    """confluent-kafka: eight requests each, as it adds the partitions first and sends a Produce for every one.

    `more` is configuration beside that of where the cluster is.
    """

    client = "librdkafka"

    def __init__(
        self, producers: int, count: int, partitions: int = PARTITIONS, more: Mapping[str, str | int] | None = None
    ) -> None:
        super().__init__(producers, count)
        self._partitions = partitions
        self._more = more or {}

    def _started(self, bootstrap: str) -> Producer:
        own: dict[str, Any] = {"transactional.id": uuid.uuid4().hex, "linger.ms": 0, "log_level": 0}
        producer = Producer({"bootstrap.servers": bootstrap, **own, **self._more})
        producer.init_transactions(SECONDS)
        return producer

    def _transaction(self, producer: Producer, topic: str) -> None:
        producer.begin_transaction()
        for number in range(RECORDS):
            producer.produce(topic, RECORD, partition=number % self._partitions)
        producer.commit_transaction(SECONDS)


class ByKafkaPython(_Threads):
    client = "kafka-python"

    def _started(self, bootstrap: str) -> Any:
        producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=uuid.uuid4().hex)
        producer.init_transactions()
        return producer

    def _transaction(self, producer: Any, topic: str) -> None:
        producer.begin_transaction()
        for number in range(RECORDS):
            producer.send(topic, RECORD, partition=number % PARTITIONS)
        producer.commit_transaction()


class ByAiokafka:
    """All producers on one loop."""

    def __init__(self, producers: int, count: int) -> None:
        self.name = measure_name("aiokafka", producers)
        self._producers = producers
        self._count = count

    def measure(self, bootstrap: str, topic: str) -> float:
        return uvloop.run(self._measure(bootstrap, topic))

    async def _measure(self, bootstrap: str, topic: str) -> float:
        ids = [uuid.uuid4().hex for _ in range(self._producers)]
        producers = [AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=one) for one in ids]
        for producer in producers:
            await producer.start()
        began = time.perf_counter()
        await asyncio.gather(*[self._work(producer, topic) for producer in producers])
        took = time.perf_counter() - began
        for producer in producers:
            await producer.stop()
        return self._producers * self._count / took

    async def _work(self, producer: Any, topic: str) -> None:
        for _ in range(self._count):
            async with producer.transaction():
                for number in range(RECORDS):
                    await producer.send(topic, RECORD, partition=number % PARTITIONS)


class ByJava:
    """Apache Kafka's own client, with transactions V2; the last of several passes of one JVM, since it warms up."""

    def __init__(self, producers: int, count: int) -> None:
        self.name = measure_name("Java", producers)
        self._producers = producers
        self._count = count

    @staticmethod
    def is_here() -> bool:
        return shutil.which("java") is not None and JAVA_JARS.is_dir()

    def measure(self, bootstrap: str, topic: str) -> float:
        program = ["java", "-cp", f"{JAVA_JARS}/*", str(JAVA_PROGRAM), bootstrap, topic]
        figures = [str(figure) for figure in (self._producers, self._count, RECORDS, PARTITIONS)]
        done = subprocess.run([*program, *figures], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        return float(done.stdout)
