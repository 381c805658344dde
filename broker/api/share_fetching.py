"""The fetch of a share group's member: what is acquired of the partitions of its session (Kafka's `DelayedShareFetch`).

How it works: share partitions that may have something are read from where the next record may be acquired. If there are
`min_bytes` from there to the end of the log, what was read is acquired, and that is the answer. If there are not, the
fetch waits for new records, for others to release some, or for another fetch to have read. A fetch that ends wakes the
one that has waited longest for each of its partitions: that one takes what is left, or watches the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from broker.replication.fetch_session import Target
from broker.replication.partition import NO_LEADER_EPOCH, Partition
from broker.replication.reads import Reader, RecordsRead
from broker.replication.waits import DelayedFetch, PartitionFetch
from broker.request_context import RequestContext
from broker.share.record_batches import ReadBatch, aborted_ranges, batches_of, spanning
from broker.share.runs import Acquired, Wish
from broker.share.sessions import ShareSession
from broker.share.share_partition import SharePartition
from coordinator.runtime.replies import resolve
from metadata.acls import AclOperation, ResourceType
from protocol.coordinator_records.share_records import SharePartitionKey
from protocol.errors import (
    KafkaError,
    OffsetOutOfRange,
    TopicAuthorization,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from protocol.primitives import Buffer, UnreadBytes
from protocol.produce_fetch.fetch_request import FetchPartitionResponse

FIRST_PIECE_BYTES = 64 << 10
"""How much is read from a file at first, of a partition that has more than is read at once."""

Place = tuple[UUID, int]
Found = tuple[Place, Partition, SharePartition]


@dataclass(slots=True)
class Taken:
    """What a fetch has of one partition."""

    records: bytes | memoryview = b""
    acquired: list[Acquired] = field(default_factory=list)
    error: KafkaError | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """What the request allows; times in ms."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    wish: Wish


class _Read(RecordsRead):
    """The reads of share partitions; errors go into what was taken."""

    def __init__(self, ctx: RequestContext, isolation_level: int, limits: Limits, left_ms: int) -> None:
        super().__init__(ctx.replicas, [], Reader(), isolation_level, left_ms, limits.min_bytes, limits.max_bytes)
        self.errors: dict[Place, KafkaError] = {}
        self._ctx = ctx

    @property
    def is_enough(self) -> bool:
        """Whether there are enough bytes in the log, also those that were not read."""
        if not self.partitions or super().is_enough:
            return bool(self.partitions)
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        return DelayedFetch(self.partitions, self._isolation, self._min_bytes, ready).try_complete()

    def find(self, target: Target) -> Partition:
        assert target.topic is not None
        return self._ctx.replicas.find(target.topic, target.key[1])

    def refuse(self, one: PartitionFetch, error: KafkaError) -> None:
        self.errors[_place_of(one)] = error


class ShareFetching:
    """One fetch of a member, from the partitions that its session has now."""

    def __init__(self, ctx: RequestContext, session: ShareSession, limits: Limits) -> None:
        self._ctx = ctx
        self._session = session
        self._group_id, self._member_id = session.key
        self._places = [*session]
        self._limits = limits
        self._shares = ctx.local.share
        self._keys = [SharePartitionKey(self._group_id, topic_id, index) for topic_id, index in self._places]
        self._isolation = self._shares.settings.of(self._group_id).isolation_level
        self.taken: dict[Place, Taken] = {}

    async def run(self) -> dict[Place, Taken]:
        """What was acquired, after a wait if there was nothing; the partitions that have an error, too."""
        try:
            return await self._run()
        finally:
            for key in self._keys:
                self._shares.available(key)

    async def _run(self) -> dict[Place, Taken]:
        clock = self._ctx.local.clock.machine
        most_ms = self._ctx.local.config.integer("odradek.fetch.max.wait.ms")
        ends_ms = clock.monotonic_ms() + min(self._limits.max_wait_ms, most_ms)
        while self._shares.sessions.has(self._session):
            left_ms = ends_ms - clock.monotonic_ms()
            found = await self._found()
            read, missed = await self._read(found, max(0, int(left_ms)))
            if read.is_enough:
                await self._acquire_all(read, found)
                return self.taken
            if not found or left_ms <= 0 or self._ctx.replicas.stopping:
                return self.taken
            if not missed:
                await self._wait(read, [share for _, _, share in found], left_ms)
        return self.taken

    def unknown(self) -> dict[Place, Taken]:
        """The partitions that there are not, for a request that fetches nothing."""
        for place in self._places:
            try:
                self._partition(place)
            except KafkaError as error:
                self.taken[place] = Taken(error=error)
        return self.taken

    async def _read(self, found: Sequence[Found], left_ms: int) -> tuple[_Read, bool]:
        """Read what may be acquired; returns also whether there may be more since then.

        A partition from whose log the next record was deleted is not read; what is left of it is the next fetch's.
        """
        read = _Read(self._ctx, self._isolation, self._limits, left_ms)
        reading: list[tuple[Place, Partition, SharePartition, int]] = []
        left_out: list[SharePartition] = []
        for place, partition, share in found:
            offset = share.next_fetch_offset
            share.advance_log_start(partition.log_start_offset)
            if share.can_acquire:
                share.begin_reading()
                reading.append((place, partition, share, offset))
            else:
                left_out.append(share)
        most_bytes = self._limits.max_bytes // max(1, len(reading))
        read.partitions = [
            PartitionFetch(
                Target(place, partition.topic, offset, most_bytes, NO_LEADER_EPOCH, NO_LEADER_EPOCH),
                partition,
                FetchPartitionResponse(place[1]),
            )
            for place, partition, _, offset in reading
        ]
        try:
            await read.go_on(read.begin())
        finally:
            for _, _, share, _ in reading:
                share.end_reading()
        # Whoever has read one of those meanwhile, or released something of it, has found nobody who waits.
        is_free = bool(left_out) and any(share.can_acquire for share in left_out)
        return read, is_free or any(share.missed for _, _, share, _ in reading)

    async def _acquire_all(self, read: _Read, found: Sequence[Found]) -> None:
        shares = {place: share for place, _, share in found}
        for place, failure in read.errors.items():
            if not isinstance(failure, OffsetOutOfRange):
                self.taken[place] = Taken(error=failure)
        for one in read.partitions:
            if one.result.records:
                try:
                    await self._acquire(one, shares[_place_of(one)])
                except KafkaError as error:
                    self.taken[_place_of(one)] = Taken(error=error)

    async def _found(self) -> list[Found]:
        """The share partitions, all loaded before the first is read: while one is read, nobody else may read it."""
        found = []
        self.taken.clear()
        for place in self._places:
            try:
                found.append((place, *await self._find(place)))
            except KafkaError as error:
                self.taken[place] = Taken(error=error)
        return found

    async def _find(self, place: Place) -> tuple[Partition, SharePartition]:
        partition = self._partition(place)
        key = SharePartitionKey(self._group_id, *place)
        return partition, self._shares.get(key) or await self._shares.load(key, partition)

    def _partition(self, place: Place) -> Partition:
        """Raises UnknownTopicId, UnknownTopicOrPartition, NotLeaderOrFollower, TopicAuthorization."""
        topic_id, index = place
        topic = self._ctx.image.topics.by_id(topic_id)
        name = self._session.topic_of(place) if topic is None else topic.name
        if name is None:
            raise UnknownTopicId
        if not self._ctx.allows(AclOperation.READ, ResourceType.TOPIC, name):
            raise TopicAuthorization
        if topic is None:  # deleted since it was added to the session
            raise UnknownTopicOrPartition
        return self._ctx.replicas.find(name, index)

    async def _acquire(self, one: PartitionFetch, share: SharePartition) -> None:
        wish = self._limits.wish
        left = wish.max_records - sum(acquired.count for taken in self.taken.values() for acquired in taken.acquired)
        if left <= 0:
            return
        data = await _up_to(share.last_acquirable(left), one.result.records)
        batches = batches_of(data, share.last_acquirable(left))
        places = [(batch.first, batch.last) for batch in batches]
        if not self._shares.sessions.has(self._session):
            return  # it has ended meanwhile, and what its member had was released
        acquired = share.acquire(
            self._member_id, one.target.fetch_offset, places, Wish(left, wish.batch_size, wish.exact)
        )
        acquired = self._without_aborted(one, share, batches, acquired)
        if acquired:
            records = spanning(data, batches, acquired[0].first, acquired[-1].last)
            self.taken[_place_of(one)] = Taken(records, acquired)

    def _without_aborted(
        self,
        one: PartitionFetch,
        share: SharePartition,
        batches: Sequence[ReadBatch],
        acquired: list[Acquired],
    ) -> list[Acquired]:
        """Give up what belongs to aborted transactions, if the group reads committed records alone."""
        aborted = one.result.aborted_transactions
        if not aborted or not acquired:
            return acquired
        gone = [*_common(acquired, aborted_ranges(batches, aborted))]
        if gone:
            share.archive_aborted(gone, self._member_id)
        return [*_outside(acquired, gone)]

    async def _wait(self, read: _Read, shares: Sequence[SharePartition], left_ms: float) -> None:
        """Wait for more records, until somebody releases some or has read, but no longer than that."""
        released = self._shares.waiter(self._keys)
        timer = self._ctx.local.clock.machine.call_later(left_ms, lambda: resolve(released, None, None))
        more = asyncio.ensure_future(read.wait()) if read.partitions else None
        turns = [share.read() for share in shares if share.reading]
        try:
            waits = [released, *turns] if more is None else [released, more, *turns]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()
            released.cancel()
            if more is not None:
                more.cancel()


def _place_of(one: PartitionFetch) -> Place:
    topic_id, index = one.target.key
    assert isinstance(topic_id, UUID)
    return topic_id, index


async def _up_to(offset: int, data: Buffer | UnreadBytes | None) -> memoryview:
    """What was read, at least up to this offset; of what is still in the file, not much more than that."""
    if not isinstance(data, UnreadBytes):
        return memoryview(data or b"")
    size = FIRST_PIECE_BYTES
    while size < len(data):
        piece = memoryview(await data.read(0, size))
        batches = batches_of(piece, offset)
        if batches and batches[-1].last >= offset:
            return piece
        size *= 4
    return memoryview(await data.read(0, len(data)))


def _common(acquired: Sequence[Acquired], ranges: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    for one in acquired:
        for first, last in ranges:
            if first <= one.last and last >= one.first:
                yield max(first, one.first), min(last, one.last)


def _outside(acquired: Sequence[Acquired], gone: Sequence[tuple[int, int]]) -> Iterator[Acquired]:
    for one in acquired:
        first = one.first
        for gone_first, gone_last in gone:
            if gone_first > one.last or gone_last < first:
                continue
            if gone_first > first:
                yield Acquired(first, gone_first - 1, one.delivery_count)
            first = gone_last + 1
        if first <= one.last:
            yield Acquired(first, one.last, one.delivery_count)
