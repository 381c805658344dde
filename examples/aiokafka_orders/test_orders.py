"""How the shop takes what happens to it: a lost reply, a poisoned order, a rebalance, a power failure."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from orders import INVOICES, ORDER, ORDERS, UNREADABLE, Invoicing, place

import odradek as kit

SYNCED = {"partitions": 1, "configs": {"flush.messages": 1}}
"""An acknowledgement waits until the record is on the disk."""

SCHEMAS = {"partitions": 1, "configs": {"cleanup.policy": "compact", "flush.messages": 1}}
"""The registry's own topic: after a power failure the schema of what is on the disk must be there, too."""

pytestmark = pytest.mark.odradek(topics={ORDERS: SYNCED, INVOICES: 1, UNREADABLE: 1, "_schemas": SCHEMAS})
SECONDS = 30


@pytest.fixture
def config(odradek_client_config: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    return odradek_client_config("aiokafka")


@pytest.fixture
async def invoicing(odradek: kit.Broker, config: dict[str, Any]) -> AsyncIterator[None]:
    """The service, running."""
    running = asyncio.create_task(Invoicing(config, odradek.registry.url).run())
    yield
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


async def test_an_order_gets_an_invoice(odradek: kit.Broker, config: dict[str, Any], invoicing: None) -> None:
    await place(config, odradek.registry.url, {"id": 7, "pieces": 3, "price": 20})
    await odradek.topic(INVOICES).expect_async({"order": 7, "total": 60}, key="7", timeout=SECONDS)


async def test_a_lost_reply_makes_no_second_invoice(
    odradek: kit.Broker, config: dict[str, Any], invoicing: None
) -> None:
    with odradek.fault(api="Produce", topic=INVOICES, phase="before_reply", disconnect=True, count=1) as fault:
        await place(config, odradek.registry.url, {"id": 7, "pieces": 3, "price": 20})
        await place(config, odradek.registry.url, {"id": 8, "pieces": 1, "price": 20})
        await odradek.assert_exactly_once_async(ORDERS, INVOICES, key="key", timeout=SECONDS)
        assert fault.hits == 1


async def test_a_poisoned_order_is_put_aside_and_the_next_one_is_handled(
    odradek: kit.Broker, config: dict[str, Any], invoicing: None
) -> None:
    known = odradek.registry.register(ORDERS, ORDER)
    odradek.topic(ORDERS).produce_many([b"\xff\x00", b"\0" + known.to_bytes(4, "big") + b'{"id": 9, "pieces": 3}'])
    await place(config, odradek.registry.url, {"id": 7, "pieces": 3, "price": 20})
    await odradek.topic(INVOICES).expect_async({"order": 7}, timeout=SECONDS)
    await odradek.group("invoicing").wait_async(lag=0, timeout=SECONDS)
    aside = odradek.topic(UNREADABLE).records()
    assert [record.headers["offset"] for record in aside] == [b"0", b"1"]
    assert b"price" in aside[1].headers["reason"]


async def test_a_rebalance_in_the_middle_of_a_commit_leaves_no_order_out(
    odradek: kit.Broker, config: dict[str, Any], invoicing: None
) -> None:
    with odradek.fault(api="OffsetCommit", group="invoicing", error="REBALANCE_IN_PROGRESS", count=1) as fault:
        for number in range(3):
            await place(config, odradek.registry.url, {"id": number, "pieces": 1, "price": 20})
        await fault.wait_async(timeout=SECONDS)
        odradek.group("invoicing").rebalance()
        await odradek.group("invoicing").wait_async(state="Stable", lag=0, timeout=SECONDS)
    assert {record.json()["order"] for record in odradek.topic(INVOICES).records()} == {0, 1, 2}


async def test_an_order_that_was_placed_survives_a_power_failure(odradek: kit.Broker, config: dict[str, Any]) -> None:
    crash = odradek.crash(at="before_fsync", topic=ORDERS)
    placing = asyncio.create_task(place(config, odradek.registry.url, {"id": 7, "pieces": 3, "price": 20}))
    await crash.wait_async(timeout=SECONDS)
    await asyncio.to_thread(odradek.restart)
    await asyncio.wait_for(placing, SECONDS)
    assert [record.json()["id"] for record in odradek.topic(ORDERS).records()] == [7]
