"""Large and small batches of one idempotent producer, five requests in flight, to topics that compress anew."""

from __future__ import annotations

import random
import threading
import uuid
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from odradek import Broker
from tests.client.raw import RawConnection


@pytest.mark.parametrize("kept", ["producer", "gzip"])
def test_nothing_is_lost_or_reordered_between_large_and_small_batches(kept: str, shared_broker: Broker) -> None:
    topic = f"mixed-{uuid.uuid4().hex[:8]}"
    address: dict[str, Any] = {"bootstrap.servers": shared_broker.bootstrap_servers}
    config = {"compression.type": kept, "max.message.bytes": "20000000"}
    admin = AdminClient(address)  # kept in a variable, as the future below dies with it
    admin.create_topics([NewTopic(topic, 1, 1, config=config)])[topic].result(30)
    rng = random.Random(7)
    settings = {
        "enable.idempotence": True,
        "compression.codec": "lz4",
        "linger.ms": 1,
        "batch.size": 4_000_000,
        "batch.num.messages": 50_000,
        "message.max.bytes": 8_000_000,
        "max.in.flight.requests.per.connection": 5,
    }
    producer = Producer(address | settings)
    sizes: list[int] = []
    for number in range(150):
        burst = rng.choice((1, 1, 3, 400, 6_000))
        for _ in range(burst):
            size = 3_000_000 if burst == 1 and number % 15 == 0 else rng.randrange(200)
            value = b"%d " % len(sizes) + bytes(size)
            while True:
                try:
                    producer.produce(topic, value, partition=0)
                    break
                except BufferError:
                    producer.poll(0.1)
            sizes.append(len(value))
        producer.poll(0.002)
    assert producer.flush(60) == 0
    consumer = Consumer(
        address | {"group.id": "unused", "enable.auto.commit": False, "fetch.message.max.bytes": 20_000_000}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    for number, size in enumerate(sizes):
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
        value = message.value() or b""
        assert (int(value.partition(b" ")[0]), len(value), message.offset()) == (number, size, number)
    consumer.close()


def test_other_clients_are_served_while_large_batches_are_checked(shared_broker: Broker) -> None:
    """Not how soon: that is measured in benchmarks/stall.py."""
    topic = f"bombs-{uuid.uuid4().hex[:8]}"
    address: dict[str, Any] = {"bootstrap.servers": shared_broker.bootstrap_servers}
    admin = AdminClient(address)
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    settings = {"compression.codec": "gzip", "message.max.bytes": 100_000_000, "batch.size": 100_000_000}
    producer = Producer(address | settings)
    errors: list[object] = []

    def send() -> None:
        for _ in range(4):
            producer.produce(topic, bytes(60_000_000), partition=0, on_delivery=lambda error, _: errors.append(error))
        producer.flush(60)

    sender = threading.Thread(target=send)
    sender.start()
    with RawConnection(shared_broker.bootstrap_servers) as connection:
        while sender.is_alive():
            connection.ask()
    sender.join()
    assert errors == [None] * 4
