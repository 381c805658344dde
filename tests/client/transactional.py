"""Stock clients' transactional producers behind one interface, and consumers of either isolation level."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer
from confluent_kafka import TopicPartition as ConfluentTopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonTopicPartition

from tests.client import java_tools
from tests.messages import value_of

SECONDS = 30.0
RECORDS = 3

Play = Callable[[str, str, str, Sequence[str]], None]
"""(bootstrap, topic, transactional id, outcomes): a transaction for each outcome, "commit" or "abort", whose three
records have all arrived before its end."""

Read = Callable[[str, str, str, int], list[bytes]]
"""(bootstrap, topic, isolation level, count): so many values of partition 0, and mostly what comes at once after."""


def values(number: int, outcome: str) -> list[bytes]:
    return [f"{outcome} {number} {record}".encode() for record in range(RECORDS)]


def expected(outcomes: Sequence[str], *, committed: bool) -> list[bytes]:
    return [
        value
        for number, outcome in enumerate(outcomes)
        if outcome == "commit" or not committed
        for value in values(number, outcome)
    ]


def play_confluent(bootstrap: str, topic: str, transactional_id: str, outcomes: Sequence[str]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id})
    producer.init_transactions(SECONDS)
    for number, outcome in enumerate(outcomes):
        producer.begin_transaction()
        for value in values(number, outcome):
            producer.produce(topic, value, partition=0)
        assert producer.flush(SECONDS) == 0
        if outcome == "commit":
            producer.commit_transaction(SECONDS)
        else:
            producer.abort_transaction(SECONDS)


def play_aiokafka(bootstrap: str, topic: str, transactional_id: str, outcomes: Sequence[str]) -> None:
    async def run() -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=transactional_id) as producer:
            for number, outcome in enumerate(outcomes):
                await producer.begin_transaction()
                for value in values(number, outcome):
                    await producer.send_and_wait(topic, value, partition=0)
                await (producer.commit_transaction() if outcome == "commit" else producer.abort_transaction())

    asyncio.run(asyncio.wait_for(run(), SECONDS))


def play_kafka_python(bootstrap: str, topic: str, transactional_id: str, outcomes: Sequence[str]) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=transactional_id)
    try:
        producer.init_transactions()
        for number, outcome in enumerate(outcomes):
            producer.begin_transaction()
            for value in values(number, outcome):
                producer.send(topic, value, partition=0).get(SECONDS)
            if outcome == "commit":
                producer.commit_transaction()
            else:
                producer.abort_transaction()
    finally:
        producer.close(timeout=5)


def play_java(bootstrap: str, topic: str, transactional_id: str, outcomes: Sequence[str]) -> None:
    source = java_tools.PIPE.with_name("Transactor.java")
    run = java_tools.java(str(source), bootstrap, topic, transactional_id, *outcomes)
    assert run.returncode == 0, run.stderr.decode()


def read_confluent(bootstrap: str, topic: str, isolation: str, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "isolation.level": isolation})
    consumer.assign([ConfluentTopicPartition(topic, 0, OFFSET_BEGINNING)])
    try:
        found = consumer.consume(count, SECONDS) + consumer.consume(count, 0.2)
    finally:
        consumer.close()
    return [value_of(one) for one in found if one.error() is None]


def read_aiokafka(bootstrap: str, topic: str, isolation: str, count: int) -> list[bytes]:
    async def run() -> list[bytes]:
        found: list[bytes] = []
        async with AIOKafkaConsumer(bootstrap_servers=bootstrap, isolation_level=isolation) as consumer:
            consumer.assign([AioTopicPartition(topic, 0)])
            await consumer.seek_to_beginning()
            while len(found) < count:
                found.append((await consumer.getone()).value)
            for records in (await consumer.getmany(timeout_ms=200)).values():
                found += [one.value for one in records]
        return found

    return asyncio.run(asyncio.wait_for(run(), SECONDS))


def read_kafka_python(bootstrap: str, topic: str, isolation: str, count: int) -> list[bytes]:
    found: list[bytes] = []
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, isolation_level=isolation, enable_auto_commit=False)
    try:
        consumer.assign([PythonTopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        enough = False
        while not enough:
            enough = len(found) >= count
            batches = consumer.poll(timeout_ms=200 if enough else int(SECONDS * 1000))
            found += [one.value for records in batches.values() for one in records]
            assert batches or enough, f"{len(found)} of {count}"
    finally:
        consumer.close()
    return found


def read_java(bootstrap: str, topic: str, isolation: str, count: int) -> list[bytes]:
    run = java_tools.java(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--partition", "0", "--offset", "earliest"),
        *("--isolation-level", isolation, "--max-messages", str(count), "--timeout-ms", "20000"),
    )
    return run.stdout.splitlines()


PLAYS: dict[str, Play] = {
    "confluent-kafka": play_confluent,
    "aiokafka": play_aiokafka,
    "kafka-python": play_kafka_python,
    "java": play_java,
}
READS: dict[str, Read] = {
    "confluent-kafka": read_confluent,
    "aiokafka": read_aiokafka,
    "kafka-python": read_kafka_python,
    "java": read_java,
}


def missing(client: str) -> str | None:
    return java_tools.missing() if client == "java" else None
