"""Topics made by the control interface while clients of an earlier test ask for them (auto.create.topics.enable)."""

from __future__ import annotations

import asyncio

import pytest

from broker.testkit.control.endpoint import ControlError
from controller.decision import NoQuota
from metadata.configs import ResourceType
from tests.doubles.clock import settle
from tests.unit.broker.rig import Rig
from tests.unit.broker.testkit.control.asking import control
from tests.unit.broker.wire import batch, produce

SYNCED = {"flush.messages": 1}


async def create(rig: Rig) -> bool:
    answer = await control(rig, "POST", "/topics", topic="orders", partitions=2, configs=SYNCED)
    assert dict(rig.node.cluster.cache.image.configs.of(ResourceType.TOPIC, "orders")) == {"flush.messages": "1"}
    assert answer["partitions"] == 2
    created: bool = answer["created"]
    return created


async def test_an_unused_topic_that_a_client_had_created_automatically_gives_way() -> None:
    async with Rig() as rig:
        rig.node.cluster.auto_topics.begin(["orders"], NoQuota())
        await settle()
        assert rig.node.cluster.cache.topic("orders") is not None
        assert await create(rig)
        assert not await create(rig)


async def test_automatic_creation_that_comes_in_between_does_not_leave_configurations_out() -> None:
    async with Rig() as rig:
        rig.node.cluster.auto_topics.begin(["orders"], NoQuota())
        asked = asyncio.ensure_future(create(rig))
        await settle()
        assert await asked


async def test_a_topic_with_records_or_made_on_purpose_does_not_give_way() -> None:
    async with Rig() as rig:
        rig.node.cluster.auto_topics.begin(["orders"], NoQuota())
        await settle()
        await rig.connect().ask("produce", 9, **produce("orders", {0: batch(b"1")}))
        with pytest.raises(ControlError, match="orders exists and has 1"):
            await create(rig)
        await control(rig, "DELETE", "/topics/orders")
        await control(rig, "POST", "/topics", topic="orders")
        with pytest.raises(ControlError, match="orders exists and has 1"):
            await create(rig)
