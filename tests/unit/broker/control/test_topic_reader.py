"""A reader of a topic waits until there is more to read, and sleeps until then."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from broker.control.topic_reader import TopicReader
from tests.doubles.clock import settle
from tests.unit.broker.rig import Rig
from tests.unit.broker.wire import batch, produce


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with Rig() as one:
        await one.create("t")
        yield one


@pytest.mark.parametrize("committed", [False, True])
async def test_it_waits_for_a_record_and_not_a_moment_longer(rig: Rig, committed: bool) -> None:
    reader = TopicReader(rig.node, "t", {0: 0}, committed=committed)
    for number in range(2):
        assert await reader.read(10) == []
        waiting = asyncio.ensure_future(reader.wait())
        await settle()
        assert not waiting.done()
        await rig.connect().ask("produce", 9, **produce("t", {0: batch(b"v%d" % number)}))
        await settle()
        assert waiting.done()
        assert [found.record.value for found in await reader.read(10)] == [b"v%d" % number]
    assert rig.node.replicas.fetch_purgatory.watched == 0


async def test_a_wait_that_is_given_up_leaves_nothing_behind(rig: Rig) -> None:
    waiting = asyncio.ensure_future(TopicReader(rig.node, "t", {0: 0}, committed=False).wait())
    await settle()
    assert rig.node.replicas.fetch_purgatory.watched == 1
    waiting.cancel()
    await settle()
    assert waiting.cancelled()
    assert rig.node.replicas.fetch_purgatory.watched == 0
