"""A small shop: `place` stores an order, and the service `Invoicing` writes an invoice for each.

Both are JSON, by schemas that a schema registry knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord
from aiokafka.errors import CommitFailedError
from confluent_kafka.schema_registry import AsyncSchemaRegistryClient
from confluent_kafka.schema_registry.json_schema import AsyncJSONDeserializer, AsyncJSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext, SerializationError

ORDERS, INVOICES, UNREADABLE = "orders", "invoices", "orders-unreadable"
ORDER, INVOICE = (Path(__file__).with_name(name) for name in ("order.json", "invoice.json"))


def of_values(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


async def place(config: Mapping[str, Any], registry: str, order: Mapping[str, Any]) -> None:
    """Store an order; it is on the broker's disk when this returns. `registry` is the schema registry's URL."""
    write = await AsyncJSONSerializer(ORDER.read_text(), AsyncSchemaRegistryClient({"url": registry}))
    value = await write(order, of_values(ORDERS))
    async with AIOKafkaProducer(**config, acks="all", enable_idempotence=True) as producer:
        await producer.send_and_wait(ORDERS, value, key=str(order["id"]).encode())


class Invoicing:
    """Writes an invoice for each order, at least once. What is no order goes to a topic of its own."""

    def __init__(self, config: Mapping[str, Any], registry: str) -> None:
        self._schemas = AsyncSchemaRegistryClient({"url": registry})
        self._consumer = AIOKafkaConsumer(
            ORDERS, **config, group_id="invoicing", enable_auto_commit=False, auto_offset_reset="earliest"
        )
        self._producer = AIOKafkaProducer(**config, acks="all", enable_idempotence=True)

    async def run(self) -> None:
        """Work until cancelled."""
        read = await AsyncJSONDeserializer(ORDER.read_text(), schema_registry_client=self._schemas)
        write = await AsyncJSONSerializer(INVOICE.read_text(), self._schemas)
        async with self._consumer, self._producer:
            async for record in self._consumer:
                await self._handle(record, read, write)
                try:
                    await self._consumer.commit()
                except CommitFailedError:
                    continue  # another instance has the partition, and goes on from the last commit

    async def _handle(self, record: ConsumerRecord, read: AsyncJSONDeserializer, write: AsyncJSONSerializer) -> None:
        try:
            order: Any = await read(record.value, of_values(ORDERS))
            if order is None:
                raise ValueError("an order without a value")
        except (SerializationError, ValueError) as error:
            headers = [("reason", repr(error).encode()), ("offset", str(record.offset).encode())]
            await self._producer.send_and_wait(UNREADABLE, record.value, key=record.key, headers=headers)
        else:
            invoice = {"order": order["id"], "total": order["pieces"] * order["price"]}
            await self._producer.send_and_wait(INVOICES, await write(invoice, of_values(INVOICES)), key=record.key)
