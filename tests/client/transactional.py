"""Stock clients' transactional producers behind one interface, and consumers of either isolation level."""

from __future__ import annotations

import asyncio
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer
from confluent_kafka import TopicPartition as ConfluentTopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonTopicPartition

from tests.client import java_tools, other_languages
from tests.messages import value_of

SECONDS = 30.0
RECORDS = 3

Play = Callable[[str, str, str, Iterable[str]], None]
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


def play_confluent(bootstrap: str, topic: str, transactional_id: str, outcomes: Iterable[str]) -> None:
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


def play_aiokafka(bootstrap: str, topic: str, transactional_id: str, outcomes: Iterable[str]) -> None:
    async def run() -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=transactional_id) as producer:
            for number, outcome in enumerate(outcomes):
                await asyncio.wait_for(transaction(producer, number, outcome), SECONDS)

    async def transaction(producer: AIOKafkaProducer, number: int, outcome: str) -> None:
        await producer.begin_transaction()
        for value in values(number, outcome):
            await producer.send_and_wait(topic, value, partition=0)
        await (producer.commit_transaction() if outcome == "commit" else producer.abort_transaction())

    asyncio.run(run())


def play_kafka_python(bootstrap: str, topic: str, transactional_id: str, outcomes: Iterable[str]) -> None:
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


def play_java(bootstrap: str, topic: str, transactional_id: str, outcomes: Iterable[str]) -> None:
    program = java_tools.compiled(java_tools.PIPE.with_name("Transactor.java"))
    _tell([*program, bootstrap, topic, transactional_id], outcomes)


def play_franz_go(bootstrap: str, topic: str, transactional_id: str, outcomes: Iterable[str]) -> None:
    program = other_languages.franz_go_failover()
    assert isinstance(program, list), program
    _tell([*program, "transactor", bootstrap, topic, transactional_id], outcomes)


def _tell(command: Sequence[str], outcomes: Iterable[str]) -> None:
    """Tell a program each outcome in a line; it answers with a line when that transaction has ended."""
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, bufsize=1
        )
        with process:
            assert process.stdin is not None
            assert process.stdout is not None
            for outcome in outcomes:
                process.stdin.write(f"{outcome}\n")
                if process.stdout.readline() != f"{outcome}\n":
                    break
            process.stdin.close()
        errors.seek(0)
        assert process.returncode == 0, errors.read()[-3000:].decode(errors="replace")


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
"""What each client does that every test of clients runs; franz-go is built first, and only tortures run it."""
READS: dict[str, Read] = {
    "confluent-kafka": read_confluent,
    "aiokafka": read_aiokafka,
    "kafka-python": read_kafka_python,
    "java": read_java,
}


def missing(client: str) -> str | None:
    return java_tools.missing() if client == "java" else None
