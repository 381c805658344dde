"""Reads a topic's records as a consumer's Fetch does, for the control interface and the console, within a budget.

Whoever may write a record decides what it costs to look at it: a few kB unpack to a hundred megabytes, hold a hundred
thousand headers, or JSON that is indented to a hundred times its size. So each answer has a budget, which is passed
through all that reads and renders for it. What does not fit is left out, and the answer says so.

Work is counted and not timed, so that an answer does not depend on how busy the machine is: a unit is a byte that is
unpacked, or what takes about as long, a nanosecond or a few.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeVar

from broker.node import Node
from broker.replication.bounds import HIGH_WATERMARK, TXN_COMMITTED
from broker.replication.fetch_session import Target
from broker.replication.partition import NO_LEADER_EPOCH, Partition
from broker.replication.waits import DelayedFetch, PartitionFetch
from odradek.schemas.codecs import scalar
from protocol.errors import OffsetOutOfRange, UnknownTopicOrPartition
from protocol.primitives import Buffer
from protocol.produce_fetch.fetch_response import FetchPartitionResponse
from protocol.records.batch import HEADER_SIZE, BatchHeader, read_header
from protocol.records.build import ControlRecordType, Record, iter_records, read_control_batch
from protocol.records.cut import NOTHING, CutLimits, LeftOut, cut_records
from storage.segments.txn_index import AbortedTxn

T = TypeVar("T")

LANE = "answers over HTTP"
"""The workers that read and render, so that no batch of a producer waits for them."""

WORK = 256 << 20
KEPT_BYTES = 8 << 20
JSON_WORK = 20
"""For each byte of JSON that is read, and each character that is written."""


class SpentError(Exception):
    """The answer has cost more than it may, or nobody waits for it any more."""


class Budget:
    """The work and the bytes that are left for an answer. One thread uses it at a time.

    Attributes:
        most: what is kept of each record.
        is_over: nobody waits for the answer any more.
        passed_over: partition, first offset and the offset behind, where not even the first record could be reached.
    """

    def __init__(self, most: CutLimits, *, work: int = WORK, kept: int = KEPT_BYTES) -> None:
        self.most = most
        self._work = self._whole = work
        self._kept = kept
        self.is_over = False
        self.passed_over: list[tuple[int, int, int]] = []

    @property
    def is_spent(self) -> bool:
        """Whether nothing more should be begun."""
        return self._work <= 0 or self._kept <= 0 or self.is_over

    @property
    def is_fresh(self) -> bool:
        """Whether hardly anything was spent: what is too much for it now would be so the next time, too."""
        return self._work > self._whole * 3 // 4

    def spend(self, work: int) -> None:
        """Note work that is about to be done.

        What was begun may cost as much again as the whole budget: then, or if the client has gone, raises SpentError.
        """
        self._work -= work
        if self.is_over or self._work < -self._whole:
            raise SpentError

    def keep(self, size: int) -> None:
        """Note bytes that stay in memory until the answer is sent."""
        self._kept -= size

    async def run(self, node: Node, work: Callable[[], T]) -> T:
        """The result of work in a thread. If the request is cancelled, as its client has gone, the work ends soon."""
        try:
            return await node.base.seams.workers.lane(LANE).call(work)
        except asyncio.CancelledError:
            self.is_over = True
            raise

    def json(self, value: Any, most: int, *, indent: int | None = None) -> tuple[str, bool]:
        """The first `most` characters of a value as JSON, and whether that is all. Raises SpentError."""
        encoder = json.JSONEncoder(ensure_ascii=False, indent=indent, default=scalar)
        parts: list[str] = []
        left = most + 1
        for part in encoder.iterencode(value):
            self.spend(JSON_WORK * min(len(part), left))
            parts.append(part[:left])
            left -= len(part)
            if left <= 0:
                break
        text = "".join(parts)
        return text[:most], len(text) <= most


_unfinished: set[asyncio.Future[Any]] = set()


async def to_the_end(work: Awaitable[T]) -> T:
    """The result of work that runs to its end, though its client may have gone: it changes something."""
    running = asyncio.ensure_future(work)
    _unfinished.add(running)
    running.add_done_callback(_unfinished.discard)
    return await asyncio.shield(running)


READ_BYTES = 1 << 20
"""How much is read of a partition at a time; a larger batch comes whole."""

DECODED_AT_ONCE = 32 << 10
"""More bytes than these are decoded in a worker thread, and so is what is compressed."""

FOREVER_MS = 2.0**40

Keep = Callable[[Record], bool]

MOST = CutLimits(content=8 << 20, headers=10_000, header_content=1 << 20)
"""What the control interface gives of a record."""


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


class TopicReader:
    """Reads on from `positions`, the next offset by partition.

    With `committed`, it reads as a read_committed consumer: up to the last stable offset, without aborted records. The
    parts of the node are looked up for each read, as a restored snapshot replaces them. `at_once` is how many bytes are
    read of a partition at a time. Records for which `keep`, called in any thread, is false are passed over.

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
    ) -> None:
        self.budget = budget or Budget(MOST)
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
        partition = self._partition(index)
        partition.check_leads()
        start, end = self._bounds(partition)
        offset = max(self.positions[index], start)
        if offset >= end:
            return None
        try:
            plan = partition.plan_read(offset, self._at_once, end, True, self._at_once)
            data = plan.try_read()
            if data is None:
                data = await plan.read()
        except OffsetOutOfRange:  # retention was faster
            return []
        if not data:  # compaction has removed the end
            self.positions[index] = end
            return None
        aborted = partition.aborted_transactions(plan, len(data)) if self._committed else ()
        decode = partial(decode_within, data, offset, aborted, index, self.budget, self._keep, most)
        found, after = decode() if _is_quick(data) else await self.budget.run(self._node, decode)
        self.positions[index] = after
        return found

    async def wait(self) -> None:
        """Return when there may be more to read. It waits for ever."""
        changed = asyncio.Event()
        end = self.listen(changed.set)
        try:
            await changed.wait()
        finally:
            end()

    def listen(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call `changed` once, when there may be more to read; return the function that ends this."""
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = [self._waiting(self._partition(index), offset) for index, offset in self.positions.items()]
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
            raise UnknownTopicOrPartition(f"{self._topic}-{index} was deleted")
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
    data: Buffer, offset: int, aborted: Iterable[AbortedTxn], index: int, budget: Budget, keep: Keep | None, most: int
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


def _data_batches(view: memoryview, aborted: Iterable[AbortedTxn]) -> Iterator[tuple[int, BatchHeader]]:
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
