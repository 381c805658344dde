"""A fresh topic, a few records by aiokafka, a consumer in a group that reads and commits them, an assertion."""

from __future__ import annotations

import os

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

RECORDS = 5


@pytest.mark.parametrize("number", range(int(os.environ.get("KIT_TESTS", "150"))))
async def test_orders_are_processed(place: tuple[str, str], number: int) -> None:
    bootstrap, topic = place
    sent = [b"order %d of %d" % (order, number) for order in range(RECORDS)]
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        for order in sent:
            await producer.send_and_wait(topic, order)
    async with AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=f"service-{topic}",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        received = [(await consumer.getone()).value for _ in sent]
        await consumer.commit()
    assert received == sent
