"""pytest-asyncio."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from odradek import Broker

pytestmark = pytest.mark.asyncio


async def test_waits_while_clients_go_on(odradek: Any, odradek_topic: Any, odradek_client_config: Any) -> None:
    config = odradek_client_config("aiokafka")
    async with (
        AIOKafkaProducer(**config) as producer,
        AIOKafkaConsumer(odradek_topic, group_id="g", auto_offset_reset="earliest", **config) as consumer,
    ):
        await producer.send_and_wait(odradek_topic, b"x")
        assert (await consumer.getone()).value == b"x"
        assert (await odradek_topic.wait_async())[0].text == "x"
        await odradek_topic.expect_async("x")
        await odradek.group("g").wait_async(state="Stable", members=1, timeout=30)
        await odradek.clock.advance_async(seconds=1)


async def test_a_broker_of_ones_own() -> None:
    async with Broker() as own:
        assert own.running
