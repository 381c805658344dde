"""Reads a topic's records for the control interface, from its partitions as a consumer's Fetch does."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import NamedTuple

from broker.node import Node
from broker.replicas.bounds import HIGH_WATERMARK, TXN_COMMITTED
from broker.replicas.delayed_fetch import DelayedFetch, PartitionFetch
from broker.replicas.fetch_session import Target
from broker.replicas.partition import NO_LEADER_EPOCH, Partition
from protocol.errors import OffsetOutOfRange, UnknownTopicOrPartition
from protocol.primitives import Buffer
from protocol.produce_fetch.fetch_response import FetchPartitionResponse
from protocol.records.batch import HEADER_SIZE, BatchHeader, read_header
from protocol.records.build import Record, iter_records
from protocol.records.markers import ControlRecordType, read_control_batch
from storage.segments.txn_index import AbortedTxn

READ_BYTES = 1 << 20
"""How much is read of a partition at a time; a larger batch comes whole."""

DECODED_AT_ONCE = 32 << 10
"""More bytes than these are decoded in a worker thread, and so is what is compressed."""

FOREVER_MS = 2.0**40

Keep = Callable[[Record], bool]


class Found(NamedTuple):
    """A record, and the partition that has it."""

    partition: int
    record: Record


class TopicReader:
    """Reads on from `positions`, the next offset by partition.

    With `committed`, it reads as a read_committed consumer: up to the last stable offset, without aborted records. The
    parts of the node are looked up for each read, as a restored snapshot replaces them. `at_once` is how many bytes are
    read of a partition at a time. Records for which `keep`, called in any thread, is false are passed over.
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
    ) -> None:
        self._node = node
        self._topic = topic
        self.positions = dict(positions)
        self._committed = committed
        self._at_once = at_once
        self._keep = keep

    async def read(self, most: int) -> list[Found]:
        """What there is now, about `most` records at most. Raises KafkaError."""
        found: list[Found] = []
        for index in self.positions:
            while len(found) < most:
                read = await self.read_some(index, most - len(found))
                if read is None:
                    break
                found += [Found(index, record) for record in read]
        return found

    async def read_some(self, index: int, most: int) -> list[Record] | None:
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
        decode = partial(decode_batches, data, offset, aborted, keep=self._keep, most=most)
        workers = self._node.replicas.logs.services.workers
        records, after = decode() if _is_quick(data) else await workers.call(decode)
        self.positions[index] = after
        return records

    async def wait(self) -> None:
        """Return when there may be more to read. It waits for ever."""
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = [self._waiting(self._partition(index), offset) for index, offset in self.positions.items()]
        operation = DelayedFetch(waiting, TXN_COMMITTED if self._committed else HIGH_WATERMARK, 1, ready)
        keys = [fetch.partition.key for fetch in waiting]
        self._node.replicas.fetch_purgatory.watch(operation, keys, FOREVER_MS)
        try:
            await ready
        finally:
            operation.force_complete()

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
    data: Buffer, offset: int, aborted: Iterable[AbortedTxn], *, keep: Keep | None = None, most: int = sys.maxsize
) -> tuple[list[Record], int]:
    """The records from `offset` on of the whole batches at the front of `data`, and the offset to go on from.

    That is after these batches, or after the last of `most` records. Control records are left out, those of `aborted`
    transactions (as a consumer does, KIP-98), and those for which `keep` is false: thousands of records that are there
    for a moment would make Python look for garbage in all of the process.
    """
    view = memoryview(data)
    coming = sorted(aborted, key=lambda one: one.first_offset, reverse=True)
    dropped: set[int] = set()
    records: list[Record] = []
    for at, header in _whole_batches(view):
        while coming and coming[-1].first_offset <= header.last_offset:
            dropped.add(coming.pop().producer_id)
        if header.is_control:
            if header.producer_id in dropped and _is_abort(view, header, at):
                dropped.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in dropped):
            wanted: Iterable[Record] = (record for record in iter_records(view, header, at) if record.offset >= offset)
            records += islice(filter(keep, wanted) if keep else wanted, most - len(records))
            if len(records) >= most:
                return records, records[-1].offset + 1
        offset = max(offset, header.next_offset)
    return records, offset


def _whole_batches(view: memoryview) -> Iterator[tuple[int, BatchHeader]]:
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
    return len(data) <= DECODED_AT_ONCE and not any(one.compression for _, one in _whole_batches(memoryview(data)))


def _is_abort(view: memoryview, header: BatchHeader, at: int) -> bool:
    control = read_control_batch(view[at : at + header.size], header)
    return control is not None and control[0] is not None and control[0].type is ControlRecordType.ABORT
