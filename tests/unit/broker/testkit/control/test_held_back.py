"""A wait in vain says which records would match, if an open transaction did not hold them back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from broker.testkit.control.endpoint import TIMED_OUT, ControlError
from tests.unit.broker.rig import Rig
from tests.unit.broker.testkit.control.asking import control
from tests.unit.broker.transactions import CONFIG, Producer
from tests.unit.broker.wire import batch, produce


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with Rig(config=CONFIG) as rig:
        await rig.create("t")
        await rig.node.coordinators.transactions.ensure_topic()
        yield rig


async def producing(rig: Rig, *values: bytes, name: str = "shipping") -> Producer:
    producer = Producer(rig.connect(), name)
    assert await producer.init() == "none"
    for sequence, value in enumerate(values):
        assert await producer.produce(value, sequence) == ["none"]
    return producer


async def said(rig: Rig, **expected: Any) -> list[str]:
    """The lines of a wait in vain after the first."""
    with pytest.raises(ControlError) as caught:
        await control(rig, "POST", "/topics/t/wait", timeout=0, **expected)
    assert caught.value.status == TIMED_OUT
    return str(caught.value).splitlines()[1:]


async def test_a_record_of_an_open_transaction_is_said_to_be_there(rig: Rig) -> None:
    producer = await producing(rig, b"parcel", b"letter")
    assert await said(rig, value="parcel") == ["1 such record is in the open transaction of shipping"]
    assert await said(rig) == ["2 such records are in the open transaction of shipping"]
    assert await said(rig, value="other") == []
    assert await producer.end(True) == "none"
    assert await control(rig, "POST", "/topics/t/wait", timeout=0, value="parcel")


async def test_a_record_behind_an_open_transaction_is_told_from_one_in_it(rig: Rig) -> None:
    await producing(rig, b"parcel")
    await producing(rig, b"parcel", name="billing")
    await rig.connect().ask("produce", 9, **produce("t", {0: batch(b"letter", b"parcel")}))
    assert sorted(await said(rig, value="parcel")) == [
        "1 such record is behind the open transaction of shipping",
        "1 such record is in the open transaction of billing",
        "1 such record is in the open transaction of shipping",
    ]


async def test_records_of_an_aborted_transaction_are_not_said_to_come(rig: Rig) -> None:
    await producing(rig, b"parcel")
    aborted = await producing(rig, b"letter", name="billing")
    assert await aborted.end(False) == "none"
    assert await said(rig, value="letter") == []


async def test_who_reads_uncommitted_records_is_told_nothing_of_it(rig: Rig) -> None:
    await producing(rig, b"parcel")
    (line, *_) = await said(rig, value="other", committed=False)
    assert line.startswith("the nearest is offset 0")
