"""Reads from a store, for all tiered logs of a node: chunks of logs, and indexes, which stay in memory for a while.

How it works: a log is read in chunks of one size. What is asked for is looked for in the cache, then among the reads
under way, and is then read in a worker thread; several who want one chunk wait for one read. The caches are bounded in
bytes, what was used least recently goes first. Once a chunk is used, the next one is read ahead. Not more than
`max_pending` reads wait for a thread: further ones fail, as in Kafka. A read that takes longer than `timeout_ms` fails
for whoever waits, even if its thread hangs.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar
from uuid import UUID

import structlog

from protocol.errors import UnknownServerError
from protocol.primitives import Buffer
from protocol.remote_storage.segment import RemoteSegment
from protocol.remote_storage.store import IndexKind, RemoteObjectMissingError, RemoteStore, RemoteStoreError
from storage.segments.index import decode_offsets, decode_times
from storage.segments.txn_index import AbortedTxn, decode_aborted
from storage.tier.counts import Count, TierCounts
from storage.tier.loads import Loads
from storage.workers import Workers
from timing.clock import Clock
from timing.rate import Rate, Windows

if TYPE_CHECKING:
    from storage.tier.cold_read import Loaded

logger = structlog.get_logger(__name__)

T = TypeVar("T")

QUOTA_WINDOWS = Windows(11, 1000)


@dataclass(frozen=True, slots=True)
class ReaderSettings:
    """Limits of the reads from a store; bytes and milliseconds. `max_bytes_per_second` is asked for anew each time."""

    chunk_bytes: int = 4 << 20
    cache_bytes: int = 64 << 20
    index_cache_bytes: int = 32 << 20
    timeout_ms: int = 30_000
    max_wait_ms: Callable[[], int] = lambda: 500
    threads: Callable[[], int] = lambda: 10
    max_pending: int = 100
    max_bytes_per_second: Callable[[], int] = lambda: 2**63 - 1
    quota_windows: Windows = QUOTA_WINDOWS


Key = tuple[UUID, Hashable]
"""A segment, and which part of it."""


class Lru(Generic[T]):
    """Parts of segments and their sizes in bytes, at most `most` in all; what was used least recently goes first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[Key, tuple[T, int]] = OrderedDict()
        self.size = 0

    def get(self, key: Key) -> T | None:
        found = self._values.get(key)
        if found is None:
            return None
        self._values.move_to_end(key)
        return found[0]

    def put(self, key: Key, value: T, size: int) -> None:
        self._forget(key)
        self._values[key] = value, size
        self.size += size
        while self.size > self._most and len(self._values) > 1:
            self._forget(next(iter(self._values)))

    def forget(self, is_wrong: Callable[[Key], bool]) -> None:
        for key in [key for key in self._values if is_wrong(key)]:
            self._forget(key)

    def _forget(self, key: Key) -> None:
        gone = self._values.pop(key, None)
        if gone is not None:
            self.size -= gone[1]


class Positions(NamedTuple):
    """An offset index in memory: relative offsets, and positions."""

    base_offset: int
    offsets: Any
    positions: Any

    def lookup(self, offset: int) -> int:
        """Position of the last indexed batch whose last offset is at most `offset`; 0 if there is none."""
        slot = bisect_right(self.offsets, offset - self.base_offset) - 1
        return int(self.positions[slot]) if slot >= 0 else 0

    def offset_from(self, position: int) -> int | None:
        """The offset of the first entry at or after a position; None behind the last."""
        slot = bisect_left(self.positions, position)
        return self.base_offset + int(self.offsets[slot]) if slot < len(self.offsets) else None


class Times(NamedTuple):
    """A time index in memory: timestamps, and relative offsets."""

    base_offset: int
    timestamps: Any
    offsets: Any

    def lookup(self, timestamp: int) -> int:
        """The offset of the last entry at or before a timestamp; the base offset if there is none."""
        slot = bisect_right(self.timestamps, timestamp) - 1
        return self.base_offset + (int(self.offsets[slot]) if slot >= 0 else 0)


class RemoteReader:
    """Reads from `store`, in threads of `workers`.

    Attributes:
        counts: what was read, and whatever else is counted of remote storage.
        waiting: reads that wait for their turn.
        last_error: why the last read failed that did.
    """

    def __init__(self, store: RemoteStore, workers: Workers, clock: Clock, settings: ReaderSettings) -> None:
        self.store = store
        self.settings = settings
        self.counts = TierCounts()
        self.waiting = 0
        self.last_error = ""
        self._failing_since_ms: float | None = None
        self._workers = workers
        self._clock = clock.machine
        self._chunks: Lru[bytes] = Lru(settings.cache_bytes)
        self._indexes: Lru[Any] = Lru(settings.index_cache_bytes)
        self.loads: Loads[Loaded] = Loads()
        self._under_way: dict[Hashable, asyncio.Task[Any]] = {}
        self._asked: list[float] = []
        self._turn: asyncio.Event = asyncio.Event()
        self._rate = Rate(settings.quota_windows)

    @property
    def cached_bytes(self) -> int:
        """The bytes in both caches."""
        return self._chunks.size + self._indexes.size

    @property
    def failing_s(self) -> float | None:
        """For how long every read has failed; None if the last one has not."""
        since = self._failing_since_ms
        return None if since is None else (self._clock.monotonic_ms() - since) / 1000

    @property
    def longest_s(self) -> float:
        """How long the longest read that is under way has taken."""
        return (self._clock.monotonic_ms() - min(self._asked)) / 1000 if self._asked else 0.0

    def forget(self, segment: RemoteSegment | None = None) -> None:
        """Keep nothing of what was read, of one segment or of all: the store may answer otherwise from now on."""
        for cache in (self._chunks, self._indexes):
            cache.forget(lambda key: segment is None or key[0] == segment.id)

    async def stop(self) -> None:
        """End all reads; what hangs in a thread is left to it."""
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # -- logs

    async def window(self, segment: RemoteSegment, position: int, least: int) -> Buffer:
        """The segment's log from a position on, to a chunk's end; at least `least` bytes, unless it ends before.

        Raises RemoteStoreError, and UnknownServerError if too many reads wait.
        """
        chunk_bytes = self.settings.chunk_bytes
        number, at = divmod(position, chunk_bytes)
        found: Buffer = memoryview(await self.chunk(segment, number))[at:]
        while len(found) < least and (number + 1) * chunk_bytes < segment.size:
            number += 1
            found = bytes(found) + await self.chunk(segment, number)
        return found

    async def chunk(self, segment: RemoteSegment, number: int) -> bytes:
        """One chunk of the segment's log."""
        key = segment.id, number
        cached = self._chunks.get(key)
        if cached is not None:
            return cached
        return await self._shared(key, lambda: self._read_chunk(segment, number))

    def read_ahead(self, segment: RemoteSegment, number: int) -> None:
        """Begin to read a chunk that will be wanted, unless others are read already."""
        key = segment.id, number
        if number * self.settings.chunk_bytes >= segment.size or self._chunks.get(key) is not None:
            return
        if key not in self._under_way and len(self._asked) < self.settings.threads():
            self._begin(key, lambda: self._read_chunk(segment, number))

    async def _read_chunk(self, segment: RemoteSegment, number: int) -> bytes:
        position = number * self.settings.chunk_bytes
        size = min(self.settings.chunk_bytes, segment.size - position)
        await self._throttle()
        data = await self._ask(segment, partial(self.store.read, segment, position, size))
        if len(data) != size:
            raise RemoteStoreError(f"segment {segment.id} has {len(data)} bytes at {position}, and should have {size}")
        self._rate.record(size, int(self._clock.monotonic_ms()))
        self.counts.add(Count.FETCH_BYTES, segment.partition.topic, size)
        self._chunks.put((segment.id, number), data, size)
        return data

    async def _throttle(self) -> None:
        """Wait as long as `remote.log.manager.fetch.max.bytes.per.second` asks for."""
        wait_ms = self._rate.throttle_ms(self.settings.max_bytes_per_second(), int(self._clock.monotonic_ms()))
        if wait_ms > 0:
            await self._clock.sleep(wait_ms)

    # -- indexes

    async def positions(self, segment: RemoteSegment) -> Positions:
        """The segment's offset index."""

        def decode(data: bytes) -> Positions:
            return Positions(segment.start_offset, *decode_offsets(data))

        return await self.index(segment, IndexKind.OFFSET, decode)

    async def times(self, segment: RemoteSegment) -> Times:
        """The segment's time index."""

        def decode(data: bytes) -> Times:
            return Times(segment.start_offset, *decode_times(data))

        return await self.index(segment, IndexKind.TIMESTAMP, decode)

    async def aborted(self, segment: RemoteSegment) -> list[AbortedTxn]:
        """The transactions whose abort markers are in the segment."""
        if segment.txn_index_empty:
            return []

        def decode(data: bytes) -> list[AbortedTxn]:
            return decode_aborted(data, segment.start_offset)

        try:
            return await self.index(segment, IndexKind.TRANSACTION, decode)
        except RemoteObjectMissingError:  # before Kafka 4.0 the metadata did not say that there is none
            self._indexes.put((segment.id, IndexKind.TRANSACTION), [], 256)
            return []

    async def index(self, segment: RemoteSegment, kind: IndexKind, decode: Callable[[bytes], T]) -> T:
        """What `decode` makes of an index. Raises RemoteStoreError, also if `decode` fails."""
        key = segment.id, kind
        cached = self._indexes.get(key)
        if cached is not None:
            found: T = cached
            return found

        async def read() -> T:
            data = await self._ask(segment, partial(self.store.index, segment, kind))
            try:
                index = decode(data)
            except Exception as error:
                raise RemoteStoreError(f"the {kind.value} index of segment {segment.id} is damaged: {error}") from error
            self._indexes.put(key, index, len(data) + 256)
            return index

        return await self._shared(key, read)

    # -- asking the store

    async def _shared(self, key: Hashable, read: Callable[[], Coroutine[Any, Any, T]]) -> T:
        task = self._under_way.get(key) or self._begin(key, read)
        found: T = await asyncio.shield(task)
        return found

    def _begin(self, key: Hashable, read: Callable[[], Coroutine[Any, Any, Any]]) -> asyncio.Task[Any]:
        task = self._under_way[key] = asyncio.ensure_future(read())

        def ended(_: asyncio.Task[Any]) -> None:
            del self._under_way[key]
            if not task.cancelled():
                task.exception()  # whoever waits has it; of a read ahead nobody does

        task.add_done_callback(ended)
        return task

    async def _ask(self, segment: RemoteSegment, work: Callable[[], bytes]) -> bytes:
        """Let a thread ask the store; at most `threads` at once, at most `max_pending` waiting."""
        if self.waiting >= self.settings.max_pending:
            raise UnknownServerError("Too many reads from remote storage wait already.")
        self.waiting += 1
        try:
            while len(self._asked) >= self.settings.threads():
                self._turn.clear()
                await self._turn.wait()
        finally:
            self.waiting -= 1
        self.counts.add(Count.FETCH_REQUESTS, segment.partition.topic)
        asked_ms = self._clock.monotonic_ms()
        self._asked.append(asked_ms)
        try:
            data = await within(self._clock, self.settings.timeout_ms, self._workers.call(work))
        except RemoteStoreError as error:
            self.counts.add(Count.FETCH_ERRORS, segment.partition.topic)
            self._failed(error)
            raise
        finally:
            self._asked.remove(asked_ms)
            self._turn.set()
        self._failing_since_ms = None
        return data

    def _failed(self, error: RemoteStoreError) -> None:
        self.last_error = str(error)
        if self._failing_since_ms is None:
            self._failing_since_ms = self._clock.monotonic_ms()
            logger.warning("remote storage cannot be read", error=str(error))


async def within(clock: Clock, timeout_ms: float, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`. Raises RemoteStoreError if it takes longer than that; its thread is left to it."""
    task, pause = asyncio.ensure_future(work), asyncio.ensure_future(clock.sleep(timeout_ms))
    try:
        await asyncio.wait((task, pause), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise RemoteStoreError(f"remote storage has not answered for {timeout_ms / 1000:g} s")
        return task.result()
    finally:
        pause.cancel()
        task.cancel()
