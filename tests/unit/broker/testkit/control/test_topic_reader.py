"""A reader of a topic waits until there is more to read, and sleeps until then."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

import pytest

from broker.testkit.control.topic_reader import TopicReader, decode_within
from protocol.records.compression import Compression
from tests.doubles.clock import settle
from tests.doubles.workers import LoopWorkers
from tests.unit.broker.rig import Rig
from tests.unit.broker.wire import batch, produce

T = TypeVar("T")


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


class CountingWorkers(LoopWorkers):
    """Counts how often a thread would decode batches."""

    def __init__(self) -> None:
        self.decoded = 0

    async def call(self, work: Callable[[], T]) -> T:
        self.decoded += getattr(work, "func", None) is decode_within
        return await super().call(work)


@pytest.mark.parametrize(("compression", "calls"), [(Compression.NONE, 0), (Compression.GZIP, 1)])
async def test_what_is_compressed_is_decoded_in_a_thread_wherever_it_stands(
    compression: Compression, calls: int
) -> None:
    """Accident: only the first batch was looked at, so one behind it was decompressed on the loop."""
    workers = CountingWorkers()
    async with Rig(workers=workers) as rig:
        await rig.create("t")
        for data in (batch(b"plain"), batch(b"x" * 1000, compression=compression)):
            await rig.connect().ask("produce", 9, **produce("t", {0: data}))
        found = await TopicReader(rig.node, "t", {0: 0}, committed=False).read(10)
    assert [one.record.value for one in found] == [b"plain", b"x" * 1000]
    assert workers.decoded == calls
