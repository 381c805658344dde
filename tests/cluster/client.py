"""What tests of clusters do as clients."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from broker.peers.call import entity_call
from tests.client.raw import RawConnection

WAIT_SECONDS = 60


def until(condition: Callable[[], bool], what: str, seconds: float = WAIT_SECONDS) -> None:
    """Return once the condition holds; fail if it does not in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.05)


def ask(bootstrap: str, request: Any) -> Any:
    """The answer to one of kio's requests."""
    call = entity_call(request)
    with RawConnection(bootstrap) as connection:
        connection.send(bytes(call.frame(call.highest, 1, b"test")))
        return call.read(connection.read_frame(), call.highest)


def create(admin: AdminClient, name: str, partitions: int, replicas: int = 1) -> dict[int, int]:
    """Create a topic; return the leaders by partition, once every partition has one."""
    admin.create_topics([NewTopic(name, partitions, replicas)])[name].result(30)
    until(lambda: len(leaders(admin, name)) == partitions, f"{name} has leaders")
    return leaders(admin, name)


def leaders(admin: AdminClient, name: str) -> dict[int, int]:
    """The leader of each partition that has one."""
    topic = admin.list_topics(name, timeout=10).topics[name]
    return {index: partition.leader for index, partition in topic.partitions.items() if partition.leader >= 0}


def produce(bootstrap: str, topic: str, values: Iterable[str], partitions: int) -> int:
    """Produce with acks=all and idempotence, spread over the partitions; return how many were acknowledged."""
    failed: list[KafkaError] = []
    acknowledged = 0

    def delivered(error: KafkaError | None, _message: Message) -> None:
        nonlocal acknowledged
        acknowledged += error is None
        if error is not None:
            failed.append(error)

    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number, value in enumerate(values):
        producer.produce(topic, value.encode(), partition=number % partitions, on_delivery=delivered)
    producer.flush(WAIT_SECONDS)
    assert not failed, failed[:3]
    return acknowledged


def read_all(bootstrap: str, topic: str, partitions: int, count: int) -> list[str]:
    """The first `count` records of a topic, read by assignment."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "nobody", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    return _poll(consumer, count)


def read_in_group(bootstrap: str, topic: str, group: str, count: int) -> list[str]:
    """The first `count` records of a topic that a group has not committed yet; they are committed."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    return _poll(consumer, count)


def _poll(consumer: Consumer, count: int) -> list[str]:
    values: list[str] = []
    deadline = time.monotonic() + WAIT_SECONDS
    try:
        while len(values) < count:
            assert time.monotonic() < deadline, f"{len(values)} of {count} records in {WAIT_SECONDS} s"
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                values.append((message.value() or b"").decode())
    finally:
        consumer.close()
    return values
