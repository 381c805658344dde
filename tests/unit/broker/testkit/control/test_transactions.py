"""Transactions through the control interface."""

from __future__ import annotations

import pytest

from broker.testkit.control.endpoint import ControlError
from tests.doubles.clock import settle
from tests.unit.broker.rig import Rig
from tests.unit.broker.testkit.control.asking import begin, control
from tests.unit.broker.transactions import CONFIG, Producer


async def producing(rig: Rig) -> Producer:
    """A producer with an open transaction in t-0."""
    await rig.create("t")
    await rig.node.coordinators.transactions.ensure_topic()
    producer = Producer(rig.connect())
    assert await producer.init() == "none"
    assert await producer.produce(b"a", 0) == ["none"]
    return producer


async def test_an_unknown_transactional_id_is_dead() -> None:
    async with Rig(config=CONFIG) as rig:
        found = await control(rig, "GET", "/transactions/tx")
        assert (found["state"], found["producer_id"], found["epoch"]) == ("Dead", -1, -1)
        with pytest.raises(ControlError) as caught:
            await control(rig, "POST", "/transactions/tx/abort")
        assert (caught.value.status, caught.value.parameter) == (404, "transactional_id")


async def test_an_open_transaction_is_shown_with_its_producer_and_partitions() -> None:
    async with Rig(config=CONFIG) as rig:
        producer = await producing(rig)
        await rig.clock.run(3_000)
        shown = await control(rig, "GET", "/transactions/tx")
        assert shown == {
            "transactional_id": "tx",
            "state": "Ongoing",
            "producer_id": producer.producer_id,
            "epoch": producer.epoch,
            "timeout": 60,
            "open_for": 3,
            "partitions": {"t": [0]},
        }
        assert await control(rig, "GET", "/transactions") == {"transactions": [shown]}


async def test_an_abort_fences_the_producer_and_frees_the_partition() -> None:
    async with Rig(config=CONFIG) as rig:
        producer = await producing(rig)
        partition = rig.node.replicas.get("t", 0)
        assert partition.last_stable_offset == 0
        aborted = await control(rig, "POST", "/transactions/tx/abort")
        assert aborted["state"] == "CompleteAbort"
        assert partition.last_stable_offset == partition.high_watermark == 2
        assert await producer.produce(b"b", 1) == ["invalid_producer_epoch"]
        assert await producer.end(True, version=4) == "producer_fenced"
        with pytest.raises(ControlError, match="no open transaction"):
            await control(rig, "POST", "/transactions/tx/abort")


async def test_a_fence_gives_a_new_epoch_with_and_without_a_transaction() -> None:
    async with Rig(config=CONFIG) as rig:
        producer = await producing(rig)
        fenced = await control(rig, "POST", "/transactions/tx/fence")
        assert (fenced["state"], fenced["epoch"] > producer.epoch) == ("Empty", True)
        again = await control(rig, "POST", "/transactions/tx/fence")
        assert again["epoch"] == fenced["epoch"] + 1
        assert await producer.end(True) == "producer_fenced"


async def test_a_wait_ends_with_the_last_marker() -> None:
    async with Rig(config=CONFIG) as rig:
        producer = await producing(rig)
        waiting = await begin(rig, "POST", "/transactions/tx/wait", state="CompleteCommit", timeout=60)
        assert not waiting.done()
        assert await producer.end(True) == "none"
        await settle()
        assert (await waiting)["state"] == "CompleteCommit"


async def test_a_wait_in_vain_says_how_the_transaction_is() -> None:
    async with Rig(config=CONFIG) as rig:
        with pytest.raises(ControlError, match="waited 0 s for state Ongoing: there is no transactional id tx"):
            await control(rig, "POST", "/transactions/tx/wait", state="Ongoing", timeout=0)
        await producing(rig)
        with pytest.raises(ControlError, match="transactional id tx is Ongoing, producer epoch 0"):
            await control(rig, "POST", "/transactions/tx/wait", state="CompleteAbort", timeout=0)
