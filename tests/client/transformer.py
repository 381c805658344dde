"""A worker as a process: reads a topic and writes what it read to another, in transactions.

    python transformer.py CLIENT BOOTSTRAP SOURCE SINK GROUP NUMBER OF

CLIENT is aiokafka, confluent-kafka or kafka-python. The offsets read are committed to GROUP by the same transactions.
It works until it is killed; after any error it ends at once with status 1, and another must take its place.

aiokafka commits offsets as nobody of the group (it speaks TxnOffsetCommit 0): its workers share the partitions
out by their NUMBER, and a worker's transactional id fences the one before it.
"""

from __future__ import annotations

import asyncio
import faulthandler
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

SESSION_MS = 3_000
TRANSACTION_MS = 6_000
AT_A_TIME = 200
POLL_SECONDS = 0.1
STUCK_SECONDS = 10


def transformed(value: bytes) -> bytes:
    return b"seen " + value


def transactional_id(group: str, number: int) -> str:
    return f"{group}-{number}"


def run_confluent(bootstrap: str, source: str, sink: str, group: str, number: int, of: int) -> None:
    from confluent_kafka import Consumer, Producer

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": 500,
        }
    )
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id(group, number),
            "transaction.timeout.ms": TRANSACTION_MS,
            "linger.ms": 1,
            # Else librdkafka 2.16 waits for ever for a coordinator that it knew before it started over.
            "metadata.recovery.strategy": "none",
        }
    )
    producer.init_transactions(20)
    consumer.subscribe([source])
    while True:
        messages = consumer.consume(AT_A_TIME, POLL_SECONDS)
        if not messages:
            continue
        producer.begin_transaction()
        for message in messages:
            if message.error():
                raise RuntimeError(message.error())
            value, partition = message.value(), message.partition()
            assert value is not None
            assert partition is not None
            producer.produce(sink, transformed(value), message.key(), partition)
        positions = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), 20)
        producer.commit_transaction(20)


def run_aiokafka(bootstrap: str, source: str, sink: str, group: str, number: int, of: int) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

    async def main() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            transactional_id=transactional_id(group, number),
            transaction_timeout_ms=TRANSACTION_MS,
        )
        await producer.start()
        consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )
        await consumer.start()
        await producer.client.force_metadata_update()
        count = len(await producer.partitions_for(source))
        consumer.assign([TopicPartition(source, index) for index in range(count) if index % of == number])
        while True:
            batches = await consumer.getmany(timeout_ms=int(POLL_SECONDS * 1000), max_records=AT_A_TIME)
            if not batches:
                continue
            async with producer.transaction():
                sent = [
                    await producer.send(sink, transformed(one.value), one.key, one.partition)
                    for records in batches.values()
                    for one in records
                ]
                await asyncio.gather(*sent)
                offsets = {partition: records[-1].offset + 1 for partition, records in batches.items()}
                await producer.send_offsets_to_transaction(offsets, group)

    asyncio.run(main())


def run_kafka_python(bootstrap: str, source: str, sink: str, group: str, number: int, of: int) -> None:
    from kafka import KafkaConsumer, KafkaProducer
    from kafka.structs import OffsetAndMetadata

    consumer = KafkaConsumer(
        source,
        bootstrap_servers=bootstrap,
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=500,
        max_poll_records=AT_A_TIME,
    )
    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        transactional_id=transactional_id(group, number),
        transaction_timeout_ms=TRANSACTION_MS,
    )
    producer.init_transactions()
    while True:
        batches = consumer.poll(timeout_ms=int(POLL_SECONDS * 1000))
        if not batches:
            continue
        # Of batches that a lost connection carried kafka-python 3.0 forgets some: it then waits for them for ever.
        faulthandler.dump_traceback_later(STUCK_SECONDS, exit=True)
        producer.begin_transaction()
        sent = [
            producer.send(sink, transformed(one.value), one.key, partition=one.partition)
            for records in batches.values()
            for one in records
        ]
        for future in sent:
            future.get(timeout=20)
        offsets: dict[Any, Any] = {
            partition: OffsetAndMetadata(records[-1].offset + 1, "", -1) for partition, records in batches.items()
        }
        producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
        producer.commit_transaction()
        faulthandler.cancel_dump_traceback_later()


RUNS: dict[str, Callable[..., None]] = {
    "aiokafka": run_aiokafka,
    "confluent-kafka": run_confluent,
    "kafka-python": run_kafka_python,
}

if __name__ == "__main__":
    try:
        RUNS[sys.argv[1]](*sys.argv[2:6], *map(int, sys.argv[6:8]))
    except BaseException:  # noqa: BLE001 - whatever it is, the clients' threads are not waited for
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
