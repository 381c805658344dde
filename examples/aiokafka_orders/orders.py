"""A small shop: `place` stores an order, and the service `Invoicing` writes an invoice for each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord
from aiokafka.errors import CommitFailedError

ORDERS, INVOICES, UNREADABLE = "orders", "invoices", "orders-unreadable"


async def place(config: Mapping[str, Any], order: Mapping[str, Any]) -> None:
    """Store an order; it is on the broker's disk when this returns."""
    async with AIOKafkaProducer(**config, acks="all", enable_idempotence=True) as producer:
        await producer.send_and_wait(ORDERS, json.dumps(order).encode(), key=str(order["id"]).encode())


class Invoicing:
    """Writes an invoice for each order, at least once. What is no order goes to a topic of its own."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._consumer = AIOKafkaConsumer(
            ORDERS, **config, group_id="invoicing", enable_auto_commit=False, auto_offset_reset="earliest"
        )
        self._producer = AIOKafkaProducer(**config, acks="all", enable_idempotence=True)

    async def run(self) -> None:
        """Work until cancelled."""
        async with self._consumer, self._producer:
            async for record in self._consumer:
                await self._handle(record)
                try:
                    await self._consumer.commit()
                except CommitFailedError:
                    continue  # another instance has the partition, and goes on from the last commit

    async def _handle(self, record: ConsumerRecord) -> None:
        try:
            invoice = invoice_for(json.loads(record.value))
        except (ValueError, KeyError, TypeError) as error:
            headers = [("reason", repr(error).encode()), ("offset", str(record.offset).encode())]
            await self._producer.send_and_wait(UNREADABLE, record.value, key=record.key, headers=headers)
        else:
            await self._producer.send_and_wait(INVOICES, json.dumps(invoice).encode(), key=record.key)


def invoice_for(order: Mapping[str, Any]) -> dict[str, Any]:
    """The invoice for an order. Raises KeyError if something is missing."""
    return {"order": order["id"], "total": order["pieces"] * order["price"]}
