"""What services of the failure tests have in common that use confluent-kafka."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from odradek import Broker
from odradek.topic import Topic

BOTH = ["naive", "right"]
SYNCED = {"flush.messages": 1}
"""Of a topic whose acknowledgements wait for the device."""


def producer_of(broker: Broker, **settings: Any) -> Producer:
    given = {key.replace("_", "."): value for key, value in settings.items()}
    return Producer({"bootstrap.servers": broker.bootstrap_servers, "retry.backoff.ms": 20, **given})


@contextmanager
def consuming(
    broker: Broker, topic: Topic, on_lost: Callable[..., None] | None = None, **settings: Any
) -> Iterator[Consumer]:
    given = {key.replace("_", "."): value for key, value in settings.items()}
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": f"g-{topic}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **given,
        }
    )
    consumer.subscribe([str(topic)], **({"on_lost": on_lost} if on_lost else {}))
    try:
        yield consumer
    finally:
        consumer.close()


def next_of(consumer: Consumer) -> Message:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            return message
    raise AssertionError("no message in 20 s")


def values(topic: Topic, *, committed: bool = False) -> list[bytes | None]:
    return [record.value for record in topic.records(committed=committed)]


class Ours:
    """Whether the partitions are still ours: False once the group has given them away."""

    def __init__(self) -> None:
        self.lost = False

    def on_lost(self, _consumer: Consumer, _partitions: list[TopicPartition]) -> None:
        self.lost = True
