"""Reads from a store: chunks are kept and read ahead, memory and waiting reads have limits, a store may hang."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar
from uuid import UUID

import pytest

from protocol.errors import UnknownServerError
from protocol.remote_storage.segment import RemoteSegment
from protocol.remote_storage.store import RemoteStoreError
from storage.tier.counts import Count
from storage.tier.folder import FolderStore
from storage.tier.remote_reader import Lru, ReaderSettings, RemoteReader
from tests.doubles.clock import ManualClock, settle
from tests.doubles.files import MemoryFileSystem
from tests.doubles.workers import LoopWorkers, QueuedWorkers
from tests.unit.protocol.remote_storage.stores import LOG, data, segment

T = TypeVar("T")
SETTINGS = ReaderSettings(chunk_bytes=1000, cache_bytes=3000)


class CountedStore(FolderStore):
    """Counts the reads."""

    def __init__(self) -> None:
        super().__init__(MemoryFileSystem(), "/store")
        self.check()
        self.copy(segment(1), data())
        self.positions: list[int] = []

    def read(self, segment: RemoteSegment, position: int, size: int) -> bytes:
        self.positions.append(position)
        return super().read(segment, position, size)


def reader_of(store: CountedStore, settings: ReaderSettings = SETTINGS) -> RemoteReader:
    return RemoteReader(store, LoopWorkers(), ManualClock(), settings)


async def test_a_chunk_is_read_once_for_all_who_wait_for_it() -> None:
    store = CountedStore()
    reader = reader_of(store)
    found = await asyncio.gather(*(reader.chunk(segment(1), 2) for _ in range(5)))
    assert found == [LOG[2000:3000]] * 5
    assert store.positions == [2000]
    assert await reader.chunk(segment(1), 2) == LOG[2000:3000]
    assert store.positions == [2000]


async def test_a_window_reaches_over_the_end_of_a_chunk_where_a_batch_does() -> None:
    reader = reader_of(CountedStore())
    assert bytes(await reader.window(segment(1), 990, 10)) == LOG[990:1000]
    assert bytes(await reader.window(segment(1), 990, 1500)) == LOG[990:3000]
    assert bytes(await reader.window(segment(1), len(LOG) - 3, 100)) == LOG[-3:]


async def test_a_transaction_index_that_is_not_there_is_asked_for_once() -> None:
    reader = reader_of(CountedStore())
    for _ in range(3):
        assert await reader.aborted(segment(1)) == []
    assert reader.counts.total(Count.FETCH_REQUESTS) == 1


async def test_the_cache_of_chunks_is_bounded() -> None:
    store = CountedStore()
    reader = reader_of(store)
    for number in range(6):
        await reader.chunk(segment(1), number)
    assert reader.cached_bytes <= 3000
    await reader.chunk(segment(1), 0)
    assert store.positions.count(0) == 2


async def test_the_next_chunk_is_read_ahead() -> None:
    store = CountedStore()
    reader = reader_of(store)
    reader.read_ahead(segment(1), 3)
    reader.read_ahead(segment(1), 10_000)
    await settle()
    assert store.positions == [3000]


async def test_further_reads_fail_when_too_many_wait() -> None:
    settings = replace(SETTINGS, threads=lambda: 1, max_pending=2)
    reader = reader_of(CountedStore(), settings)
    found = await asyncio.gather(*(reader.chunk(segment(1), number) for number in range(6)), return_exceptions=True)
    assert [type(one) for one in found].count(UnknownServerError) == 3
    assert [one for one in found if isinstance(one, bytes)] == [LOG[at : at + 1000] for at in (0, 1000, 2000)]


class HangingWorkers(QueuedWorkers):
    """No work ever ends."""

    async def call(self, work: Callable[[], T]) -> T:
        await asyncio.Event().wait()
        return work()


async def test_a_store_that_hangs_is_an_error_after_the_timeout() -> None:
    clock = ManualClock()
    reader = RemoteReader(CountedStore(), HangingWorkers(), clock, SETTINGS)
    reading = asyncio.ensure_future(reader.chunk(segment(1), 0))
    await clock.run(29_000)
    assert not reading.done()
    assert reader.longest_s == 29
    await clock.run(2_000)
    with pytest.raises(RemoteStoreError, match="remote storage has not answered for 30 s"):
        await reading
    assert reader.counts.total(Count.FETCH_ERRORS) == 1
    assert reader.longest_s == 0


async def test_reads_wait_for_the_quota_of_bytes() -> None:
    clock = ManualClock()
    settings = replace(SETTINGS, max_bytes_per_second=lambda: 100)
    reader = RemoteReader(CountedStore(), LoopWorkers(), clock, settings)
    await reader.chunk(segment(1), 0)
    await reader.chunk(segment(1), 1)  # what was read until now is within the quota of all windows
    third = asyncio.ensure_future(reader.chunk(segment(1), 2))
    await settle()
    assert not third.done()
    await clock.run(20_000)
    assert await third == LOG[2000:3000]


def test_what_was_used_least_recently_leaves_the_cache_first() -> None:
    cache: Lru[str] = Lru(10)
    one, other = UUID(int=1), UUID(int=2)
    for part in "abc":
        cache.put((one, part), part, 4)
    assert [cache.get((one, part)) for part in "abc"] == [None, "b", "c"]
    cache.get((one, "b"))
    cache.put((other, "d"), "d", 4)
    assert cache.get((one, "c")) is None
    cache.forget(lambda key: key[0] == one)
    assert (cache.get((one, "b")), cache.get((other, "d")), cache.size) == (None, "d", 4)
    cache.put((one, "large"), "large", 100)
    assert cache.get((one, "large")) == "large"
    assert cache.size == 100
