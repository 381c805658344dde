"""Reads a topic's records as a consumer's Fetch does, for the control interface and the console, within a budget."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from kio.schema.errors import ErrorCode

from broker.node import Node
from broker.peers.leaders import LATEST, Unknown, ask_bounds, ask_by, ask_offsets, check
from broker.replication.bounds import HIGH_WATERMARK, TXN_COMMITTED
from broker.replication.fetch_session import Target
from broker.replication.partition import NO_LEADER_EPOCH, Partition
from broker.replication.waits import DelayedFetch, PartitionFetch
from broker.testkit.control.budget import MOST, Budget, SpentError
from broker.testkit.inspection.partitions import leader_of
from protocol.errors import KafkaError, OffsetOutOfRange, UnknownTopicOrPartition
from protocol.metadata.topics import NO_LEADER
from protocol.primitives import Buffer
from protocol.produce_fetch.fetch_request import FetchPartition, FetchRequest
from protocol.produce_fetch.fetch_response import AbortedTransaction, FetchPartitionResponse
from protocol.records.batch import HEADER_SIZE, BatchHeader, read_header
from protocol.records.build import ControlRecordType, Record, iter_records, read_control_batch
from protocol.records.cut import NOTHING, LeftOut, cut_records
from storage.segments.txn_index import AbortedTxn

T = TypeVar("T")

READ_BYTES = 1 << 20
"""How much is read of a partition at a time; a larger batch comes whole."""

DECODED_AT_ONCE = 32 << 10
"""More bytes than these are decoded in a worker thread, and so is what is compressed."""

FOREVER_MS = 2.0**40

Keep = Callable[[Record], bool]


class Found(NamedTuple):
    """A record, the partition that has it, and what the budget left out of it."""

    partition: int
    record: Record
    left_out: LeftOut = NOTHING

    @property
    def size(self) -> int:
        """The bytes that it keeps in memory, about."""
        key, value, headers = self.record.key or b"", self.record.value or b"", self.record.headers
        return len(key) + len(value) + sum(len(name) + len(content or b"") + 200 for name, content in headers) + 200


class Piece(NamedTuple):
    """Batches of a partition from `offset` on; none if it ends there. `end` is where readers end for now."""

    data: Buffer
    offset: int
    end: int
    aborted: Sequence[AbortedTxn | AbortedTransaction] = ()


LOOK_MS = 1_000.0
"""How often another broker is asked whether there is more to read."""


class TopicReader:
    """Reads on from `positions`, the next offset by partition.

    With `committed`, it reads as a read_committed consumer: up to the last stable offset, without aborted records. The
    parts of the node are looked up for each read, as a restored snapshot replaces them. `at_once` is how many bytes are
    read of a partition at a time. Records for which `keep`, called in any thread, is false are passed over. With
    `anywhere`, what another broker leads is fetched there; else it is refused.

    Attributes:
        budget: what reading may cost. When it is spent, reading stops where the positions say, and may go on with a new
            one. The reader begins with one for the control interface.
    """

    def __init__(
        self,
        node: Node,
        topic: str,
        positions: Mapping[int, int],
        *,
        committed: bool,
        at_once: int = READ_BYTES,
        keep: Keep | None = None,
        budget: Budget | None = None,
        anywhere: bool = False,
    ) -> None:
        self.budget = budget or Budget(MOST)
        self._anywhere = anywhere
        self._ends: dict[int, int] = {}  # of what others lead, as far as it is known
        self._node = node
        self._topic = topic
        self.positions = dict(positions)
        self._committed = committed
        self._at_once = at_once
        self._keep = keep

    async def read(self, most: int) -> list[Found]:
        """What there is now, about `most` records at most, within the budget. Raises KafkaError."""
        found: list[Found] = []
        for index in self.positions:
            while len(found) < most and not self.budget.is_spent:
                read = await self.read_some(index, most - len(found))
                if read is None:
                    break
                found += read
        return found

    async def read_on(self, most: int) -> list[Found]:
        """The next records, with a new budget; none at the end. Raises KafkaError."""
        while True:
            self.budget = Budget(self.budget.most)
            found = await self.read(most)
            if found or not self.budget.is_spent:
                return found

    async def read_some(self, index: int, most: int) -> list[Found] | None:
        """Read a piece of a partition, and move its position; None at the end. Raises KafkaError."""
        leader = self._elsewhere(index)
        piece = await (self._piece_here(index) if leader is None else self._piece_at(leader, index))
        if piece is None:
            return []
        if not piece.data:
            self.positions[index] = max(self.positions[index], piece.end)
            return None
        decode = partial(decode_within, piece.data, piece.offset, piece.aborted, index, self.budget, self._keep, most)
        found, after = decode() if _is_quick(piece.data) else await self.budget.run(self._node, decode)
        self.positions[index] = after
        return found

    async def _piece_here(self, index: int) -> Piece | None:
        """None if retention was faster. Raises KafkaError."""
        partition = self._partition(index)
        partition.check_leads()
        start, end = self._bounds(partition)
        offset = max(self.positions[index], start)
        if offset >= end:
            return Piece(b"", offset, end)
        try:
            plan = partition.plan_read(offset, self._at_once, end, True, self._at_once)
            data = plan.try_read()
            if data is None:
                data = await plan.read()
        except OffsetOutOfRange:
            return None
        aborted = partition.aborted_transactions(plan, len(data)) if self._committed else ()
        return Piece(data, offset, end, aborted)

    async def _piece_at(self, leader: int, index: int) -> Piece | None:
        """The same of another broker, as a consumer fetches it. Raises KafkaError."""
        # A node that stands alone knows nothing of it.
        from broker.replication.following.follower_log import fetch_call

        offset = self.positions[index]
        if index in self._ends and offset >= self._ends[index]:
            return Piece(b"", offset, offset)
        reach, topic = self._node.cluster.peers.reach, self._node.cluster.cache.topic(self._topic)
        assert topic is not None
        asked = FetchPartition(index, offset, self._at_once)
        request = FetchRequest(0, 0, self._at_once, int(self._committed), topics=[(topic.id, [asked])])
        answer = await ask_by(reach, leader, fetch_call(request))
        check(leader, ErrorCode(answer.error_code))
        ((_, (one,)),) = answer.topics
        if ErrorCode(one.error_code) is ErrorCode.offset_out_of_range:
            bounds = (await ask_bounds(reach, leader, [(self._topic, index)]))[self._topic, index]
            if isinstance(bounds, Unknown) or offset >= bounds.start:
                return Piece(b"", offset, offset)
            self.positions[index] = bounds.start
            return None
        check(leader, ErrorCode(one.error_code))
        self._ends[index] = one.last_stable_offset if self._committed else one.high_watermark
        assert one.records is None or isinstance(one.records, bytes | memoryview)
        return Piece(one.records or b"", offset, self._ends[index], one.aborted_transactions or ())

    async def leave_out_what_is_refused(self) -> None:
        """Read on without the partitions that other brokers do not give. Raises KafkaError if there are no others."""
        for index in list(self.positions):
            if (leader := self._elsewhere(index)) is not None:
                try:
                    await self._piece_at(leader, index)
                except KafkaError:
                    if len(self.positions) == 1:
                        raise
                    del self.positions[index]

    async def wait(self) -> None:
        """Return when there may be more to read. It waits for ever."""
        changed = asyncio.Event()
        end = self.listen(changed.set)
        try:
            await changed.wait()
        finally:
            end()

    def listen(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call `changed` when there may be more to read; return the function that ends this."""
        elsewhere = [index for index in self.positions if self._elsewhere(index) is not None]
        here = [index for index in self.positions if index not in elsewhere]
        ends = [self._listen_here(here, changed)] if here else []
        if elsewhere:
            ends.append(asyncio.ensure_future(self._look_elsewhere(elsewhere, changed)).cancel)

        def end() -> None:
            for each in ends:
                each()

        return end

    def _listen_here(self, indexes: Iterable[int], changed: Callable[[], None]) -> Callable[[], object]:
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = [self._waiting(self._partition(index), self.positions[index]) for index in indexes]
        operation = DelayedFetch(waiting, TXN_COMMITTED if self._committed else HIGH_WATERMARK, 1, ready)
        keys = [fetch.partition.key for fetch in waiting]

        def is_ready(_: asyncio.Future[None]) -> None:
            changed()

        def end() -> None:
            ready.remove_done_callback(is_ready)
            operation.force_complete()

        ready.add_done_callback(is_ready)
        self._node.replicas.fetch_purgatory.watch(operation, keys, FOREVER_MS)
        return end

    async def _look_elsewhere(self, indexes: Sequence[int], changed: Callable[[], None]) -> None:
        """Ask the leaders for the ends of these partitions until one is behind its position, or is led elsewhere."""
        by_leader: dict[int, list[tuple[str, int]]] = {}
        for index in indexes:
            leader = self._elsewhere(index)
            if leader is not None:
                by_leader.setdefault(leader, []).append((self._topic, index))
        while not any(self._ends.get(index, 0) > self.positions[index] for index in indexes):
            await self._node.clock.machine.sleep(LOOK_MS)
            for leader, keys in by_leader.items():
                if any(self._elsewhere(index) != leader for _, index in keys):
                    changed()
                    return
                told = await ask_offsets(
                    self._node.cluster.peers.reach, leader, keys, LATEST, isolation_level=int(self._committed)
                )
                self._ends |= {index: end for (_, index), end in told.items() if not isinstance(end, Unknown)}
        changed()

    def _elsewhere(self, index: int) -> int | None:
        """The other broker that leads a partition, if what that has may be read."""
        leader = leader_of(self._node, (self._topic, index)) if self._anywhere else None
        return None if leader in (None, NO_LEADER, self._node.node_id) else leader

    def _waiting(self, partition: Partition, offset: int) -> PartitionFetch:
        start, end = self._bounds(partition)
        offset = min(max(offset, start), end)
        target = Target((self._topic, partition.index), self._topic, offset, READ_BYTES, NO_LEADER_EPOCH, -1)
        result = FetchPartitionResponse(partition.index)
        idle_at = partition.bounds if offset == end else None
        epoch = partition.leader_epoch
        return PartitionFetch(target, partition, result, offset, idle_at=idle_at, leader_epoch=epoch)

    def _partition(self, index: int) -> Partition:
        partition = self._node.replicas.get(self._topic, index)
        if partition is None:
            raise UnknownTopicOrPartition(f"{self._topic}-{index} was deleted, or has no leader")
        return partition

    def _bounds(self, partition: Partition) -> tuple[int, int]:
        bounds = partition.bounds
        return bounds[0], bounds[TXN_COMMITTED if self._committed else HIGH_WATERMARK]


def decode_batches(
    data: Buffer, offset: int, aborted: Iterable[AbortedTxn], told: Callable[[Record], T]
) -> tuple[list[T], int]:
    """What `told` makes of each record from `offset` on of the whole batches at the front of `data`.

    Returns the offset to go on from, too. Control records are left out, and those of `aborted` transactions.
    """
    view = memoryview(data)
    records: list[T] = []
    for at, header in _data_batches(view, aborted):
        records += (told(record) for record in iter_records(view, header, at) if record.offset >= offset)
    for _, header in whole_batches(view):
        offset = max(offset, header.next_offset)
    return records, offset


def decode_within(
    data: Buffer,
    offset: int,
    aborted: Iterable[AbortedTxn | AbortedTransaction],
    index: int,
    budget: Budget,
    keep: Keep | None,
    most: int,
) -> tuple[list[Found], int]:
    """As `decode_batches`, up to `most` records or until the budget is spent, without those for which `keep` is false.

    Thousands of records that are there for a moment would make Python look for garbage in all of the process. A batch
    whose records before `offset` cost the whole budget is passed over: the next time would be as this one.
    """
    view = memoryview(data)
    found: list[Found] = []
    for at, header in _data_batches(view, aborted):
        is_fresh, begin = budget.is_fresh, max(offset, header.base_offset)
        offset = begin
        try:
            for record, left_out in cut_records(view, header, at, begin, budget.most, budget.spend):
                offset = record.offset + 1
                if keep is None or keep(record):
                    one = Found(index, record, left_out)
                    found.append(one)
                    budget.keep(one.size)
                if len(found) >= most or budget.is_spent:
                    return found, offset
        except SpentError:
            if offset > begin or not is_fresh or budget.is_over:
                return found, offset
            budget.passed_over.append((index, begin, header.next_offset))
            return found, header.next_offset
        offset = max(offset, header.next_offset)
    for _, header in whole_batches(view):
        offset = max(offset, header.next_offset)
    return found, offset


def _data_batches(
    view: memoryview, aborted: Iterable[AbortedTxn | AbortedTransaction]
) -> Iterator[tuple[int, BatchHeader]]:
    """The whole batches at the front that a consumer sees (KIP-98): no control batches, no aborted transactions."""
    coming = sorted(aborted, key=lambda one: one.first_offset, reverse=True)
    dropped: set[int] = set()
    for at, header in whole_batches(view):
        while coming and coming[-1].first_offset <= header.last_offset:
            dropped.add(coming.pop().producer_id)
        if header.is_control:
            if header.producer_id in dropped and _is_abort(view, header, at):
                dropped.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in dropped):
            yield at, header


def whole_batches(view: memoryview) -> Iterator[tuple[int, BatchHeader]]:
    """The position and the header of each batch at the front that is whole."""
    at = 0
    while at + HEADER_SIZE <= len(view):
        header = read_header(view, at)
        if at + header.size > len(view):
            return
        yield at, header
        at += header.size


def _is_quick(data: Buffer) -> bool:
    """Whether it takes too little time for a thread to be worth it."""
    return len(data) <= DECODED_AT_ONCE and not any(one.compression for _, one in whole_batches(memoryview(data)))


def _is_abort(view: memoryview, header: BatchHeader, at: int) -> bool:
    control = read_control_batch(view[at : at + header.size], header)
    return control is not None and control[0] is not None and control[0].type is ControlRecordType.ABORT
