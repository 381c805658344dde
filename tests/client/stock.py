"""Stock clients behind one interface: produce values to partition 0 of a topic, and read partition 0 from its start."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer
from confluent_kafka import TopicPartition as ConfluentTopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonTopicPartition

from tests.client import java_tools
from tests.client.java_tools import JavaPipe
from tests.messages import value_of

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
WAIT_SECONDS = 30.0
"""How long a consumer waits for the next record before it gives back what it has."""


@dataclass(frozen=True, slots=True)
class StockClient:
    """`produce(bootstrap, topic, values, compression)` returns when all are acknowledged, idempotently, acks=all.

    `consume(bootstrap, topic, count)` assigns the partition and gives its first `count` values, or all there are.
    """

    name: str
    produce: Callable[[str, str, Iterable[bytes], str], None]
    consume: Callable[[str, str, int], list[bytes]]


def aiokafka_produce(bootstrap: str, topic: str, values: Iterable[bytes], compression: str) -> None:
    async def run() -> None:
        codec = None if compression == "none" else compression
        async with AIOKafkaProducer(
            bootstrap_servers=bootstrap, acks="all", enable_idempotence=True, compression_type=codec, linger_ms=5
        ) as producer:
            futures = [await producer.send(topic, value, partition=0) for value in values]
            await asyncio.gather(*futures)

    asyncio.run(run())


def aiokafka_consume(bootstrap: str, topic: str, count: int) -> list[bytes]:
    async def run() -> list[bytes]:
        found: list[bytes] = []
        async with AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False) as consumer:
            partition = AioTopicPartition(topic, 0)
            consumer.assign([partition])
            await consumer.seek_to_beginning(partition)
            while len(found) < count:
                batches = await consumer.getmany(timeout_ms=int(WAIT_SECONDS * 1000))
                if not batches:
                    break
                found += [record.value for records in batches.values() for record in records]
        return found[:count]

    return asyncio.run(run())


def confluent_produce(bootstrap: str, topic: str, values: Iterable[bytes], compression: str) -> None:
    failures: list[str] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failures.append(str(error))

    producer = Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "compression.type": compression, "linger.ms": 5}
    )
    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=delivered)
        producer.poll(0)
    left = producer.flush(60)
    assert (left, failures) == (0, [])


def confluent_consume(bootstrap: str, topic: str, count: int) -> list[bytes]:
    found: list[bytes] = []
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([ConfluentTopicPartition(topic, 0, OFFSET_BEGINNING)])
    try:
        while len(found) < count:
            messages = consumer.consume(min(1000, count - len(found)), WAIT_SECONDS)
            if not messages:
                break
            found += [value_of(message) for message in messages if message.error() is None]
    finally:
        consumer.close()
    return found


def kafka_python_produce(bootstrap: str, topic: str, values: Iterable[bytes], compression: str) -> None:
    codec = None if compression == "none" else compression
    producer = KafkaProducer(
        bootstrap_servers=bootstrap, acks="all", enable_idempotence=True, compression_type=codec, linger_ms=5
    )
    try:
        futures = [producer.send(topic, value=value, partition=0) for value in values]
        for future in futures:
            future.get(timeout=60)
    finally:
        producer.close(timeout=10)


def kafka_python_consume(bootstrap: str, topic: str, count: int) -> list[bytes]:
    found: list[bytes] = []
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
    partition = PythonTopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    try:
        while len(found) < count:
            batches = consumer.poll(timeout_ms=int(WAIT_SECONDS * 1000))
            if not batches:
                break
            found += [record.value for records in batches.values() for record in records]
    finally:
        consumer.close()
    return found[:count]


def kcat_produce(bootstrap: str, topic: str, values: Iterable[bytes], compression: str) -> None:
    """Values hold no newline and are not empty: kcat's delimiter is the newline, and it leaves out empty messages."""
    options = ["-X", "enable.idempotence=true", "-X", f"compression.codec={compression}", "-X", "linger.ms=5"]
    command = ["kcat", "-P", "-E", "-b", bootstrap, "-t", topic, "-p", "0", *options]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        for value in values:
            process.stdin.write(value + b"\n")
        process.stdin.close()
        complaints = process.stderr.read().decode()
    assert process.returncode == 0, complaints


def kcat_consume(bootstrap: str, topic: str, count: int) -> list[bytes]:
    command = ["kcat", "-C", "-q", "-b", bootstrap, "-t", topic, "-p", "0", "-o", "beginning", "-c", str(count)]
    run = subprocess.run(command, capture_output=True, timeout=WAIT_SECONDS, check=False)
    assert run.returncode == 0, run.stderr.decode()
    return run.stdout.split(b"\n")[:-1]


def missing(name: str) -> str | None:
    """Why a client cannot be used on this machine; None when it can."""
    if name == "java":
        return java_tools.missing()
    if name == "kcat" and shutil.which("kcat") is None:
        return "kcat is not installed (tests/client/install-tools.sh)"
    return None


NAMES = ("aiokafka", "confluent-kafka", "kafka-python", "kcat", "java")


def clients(java: Callable[[], JavaPipe]) -> Iterator[StockClient]:
    """Those of the five that this machine has; `java` gives the session's JVM when it is needed."""
    made = {
        "aiokafka": (aiokafka_produce, aiokafka_consume),
        "confluent-kafka": (confluent_produce, confluent_consume),
        "kafka-python": (kafka_python_produce, kafka_python_consume),
        "kcat": (kcat_produce, kcat_consume),
        "java": (
            lambda *arguments: java().produce(*arguments),
            lambda *arguments: java().consume(*arguments),
        ),
    }
    for name, (produce, consume) in made.items():
        if missing(name) is None:
            yield StockClient(name, produce, consume)
