"""What services of the failure tests have in common that use aiokafka."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord
from aiokafka.abc import ConsumerRebalanceListener

from odradek import Broker
from odradek.topic import Topic

BOTH = ["naive", "right"]
BACKOFF_MS = 20
SYNCED = {"flush.messages": 1}
"""Of a topic whose acknowledgements wait for the device."""


@asynccontextmanager
async def producing(broker: Broker, **settings: Any) -> AsyncIterator[AIOKafkaProducer]:
    settings = {"retry_backoff_ms": BACKOFF_MS, **settings}
    async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers, **settings) as producer:
        yield producer


@asynccontextmanager
async def consuming(
    broker: Broker, topic: Topic, listener: ConsumerRebalanceListener | None = None, **settings: Any
) -> AsyncIterator[AIOKafkaConsumer]:
    settings = {
        "group_id": f"g-{topic}",
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "retry_backoff_ms": BACKOFF_MS,
        **settings,
    }
    consumer = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap_servers, **settings)
    consumer.subscribe([str(topic)], listener=listener)
    async with consumer:
        yield consumer


async def next_of(consumer: AIOKafkaConsumer) -> ConsumerRecord:
    return await asyncio.wait_for(consumer.getone(), 20)


def values(topic: Topic, *, committed: bool = False) -> list[bytes | None]:
    return [record.value for record in topic.records(committed=committed)]
