"""Small transactions by stock clients: how many per second their concurrent producers complete."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import uvloop
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer
from kafka import KafkaProducer

PARTITIONS = 6
RECORDS = 10
RECORD = b"a small record"
SECONDS = 60.0

ONE_CORE, ALL_CORES = 1, os.cpu_count() or 1
"""What a client can use: Python's threads share one core, those of C and Java do not."""

JAVA_PROGRAM = Path(__file__).with_name("Transactions.java")
JAVA_JARS = Path(__file__).parents[1] / "build" / "java"
"""Where `make tools` puts Apache Kafka's jars."""
JAVA_PASSES = 4


class Measured(NamedTuple):
    """Transactions per second, and the microseconds of the client's own CPU time for each."""

    rate: float
    client_cpu_us: float


class Work(Protocol):
    """Transactions of one client, named `who`: `ended` of them at a bootstrap address, on a topic of their own.

    The client can use `cores`.
    """

    who: str
    ended: int
    cores: int

    def measure(self, bootstrap: str, topic: str) -> Measured: ...


def producers_of(client: str, producers: int) -> str:
    return f"{client}, {producers} producer{'s' if producers > 1 else ''}"


class Stopwatch:
    """Time and this process's CPU time since it was created."""

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._cpu = time.process_time()

    def measured(self, ended: int) -> Measured:
        cpu = time.process_time() - self._cpu
        return Measured(ended / (time.perf_counter() - self._began), cpu * 1e6 / ended)


class _Threads(ABC):
    """A client whose calls block: each producer has a thread, and completes `count` transactions."""

    client: str
    cores: int

    def __init__(self, producers: int, count: int) -> None:
        self.who = producers_of(self.client, producers)
        self.ended = producers * count
        self._producers = producers
        self._count = count

    @abstractmethod
    def _started(self, bootstrap: str) -> Any:
        """A producer with a transactional id of its own, ready for its first transaction."""

    @abstractmethod
    def _transaction(self, producer: Any, topic: str) -> None: ...

    def measure(self, bootstrap: str, topic: str) -> Measured:
        """Raises what a producer raises."""

        def work(producer: Any) -> None:
            for _ in range(self._count):
                self._transaction(producer, topic)

        with ThreadPoolExecutor(self._producers) as pool:
            producers = list(pool.map(self._started, [bootstrap] * self._producers))
            watch = Stopwatch()
            list(pool.map(work, producers))
            measured = watch.measured(self.ended)
        for producer in producers:
            producer.close()
        return measured


class ByLibrdkafka(_Threads):
    """confluent-kafka: eight requests per transaction, as it first adds the partitions and sends each a Produce.

    `more` is configuration besides the address of the cluster.
    """

    client = "librdkafka"
    cores = ALL_CORES

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
    cores = ONE_CORE

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

    cores = ONE_CORE

    def __init__(self, producers: int, count: int) -> None:
        self.who = producers_of("aiokafka", producers)
        self.ended = producers * count
        self._producers = producers
        self._count = count

    def measure(self, bootstrap: str, topic: str) -> Measured:
        return uvloop.run(self._measure(bootstrap, topic))

    async def _measure(self, bootstrap: str, topic: str) -> Measured:
        ids = [uuid.uuid4().hex for _ in range(self._producers)]
        producers = [AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=one) for one in ids]
        for producer in producers:
            await producer.start()
        watch = Stopwatch()
        await asyncio.gather(*[self._work(producer, topic) for producer in producers])
        measured = watch.measured(self.ended)
        for producer in producers:
            await producer.stop()
        return measured

    async def _work(self, producer: Any, topic: str) -> None:
        for _ in range(self._count):
            async with producer.transaction():
                for number in range(RECORDS):
                    await producer.send(topic, RECORD, partition=number % PARTITIONS)


class ByJava:
    """Apache Kafka's own client, with transactions V2; the last of several passes of one JVM, since it warms up."""

    cores = ALL_CORES

    def __init__(self, producers: int, count: int) -> None:
        self.who = producers_of("Java", producers)
        self.ended = producers * count * JAVA_PASSES
        self._figures = [str(figure) for figure in (producers, count, RECORDS, PARTITIONS, JAVA_PASSES)]

    @staticmethod
    def is_here() -> bool:
        return shutil.which("java") is not None and JAVA_JARS.is_dir()

    def measure(self, bootstrap: str, topic: str) -> Measured:
        program = ["java", "-cp", f"{JAVA_JARS}/*", str(JAVA_PROGRAM), bootstrap, topic, *self._figures]
        done = subprocess.run(program, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        rate, client_cpu_us, replaced = map(float, done.stdout.split())
        if replaced:
            sys.stderr.write(f"{self.who}: {replaced:.0f} failed and were replaced\n")
        return Measured(rate, client_cpu_us)
