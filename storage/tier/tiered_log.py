"""One log's records in remote storage: what of it belongs to the log, and reads of it.

How it works: segments in remote storage belong to the log as far as its leader epochs say (`is_of_log`): after an
unclean election or a power failure others may be there, which nobody reads. A read finds the epoch of its offset, by
that the segment, in the offset index a position, and from there on the batch.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from protocol.errors import CorruptMessage, OffsetOutOfRange, UnknownServerError
from protocol.records.batch import HEADER_SIZE, read_header
from protocol.remote_storage.segment import RemoteSegment
from protocol.remote_storage.segments import RemoteSegments
from protocol.remote_storage.store import IndexKind, RemoteObjectMissingError, RemoteStoreError
from protocol.topic_partition import EpochEntry
from storage.checkpoint_file import checkpoint_entries
from storage.log.leader_epochs import entries_of
from storage.log.log_segments import LogOffsetMetadata, TimestampOffsetEpoch
from storage.log.log_services import ReplicaState
from storage.log.time_lookup import records_of
from storage.producers.snapshot_files import decode as decode_snapshot
from storage.segments.txn_index import AbortedTxn, collect_aborted
from storage.tier.cold_read import ColdPlan, Loaded
from storage.tier.counts import Count

if TYPE_CHECKING:
    from storage.log.unified_log import UnifiedLog
    from storage.tier.remote_reader import RemoteReader

_OFFSETS = struct.Struct(">qi4xb6xi")  # base offset, batch length, magic, last offset delta
_LEAST_LENGTH = 14


class TieredLog:
    """The tier of `log`. `changed` is called when a load is over, and when a part of the log has gone.

    Attributes:
        segments: what is in remote storage.
        highest_offset: the last offset that is copied; -1 if none is.
        known: done once what is in remote storage is known; reads wait until then.
        why_not: why a replica could not begin behind what is there, the last time; None if it could.
    """

    def __init__(
        self, log: UnifiedLog, segments: RemoteSegments, reader: RemoteReader, changed: Callable[[], None]
    ) -> None:
        self.log = log
        self.segments = segments
        self.highest_offset = -1
        self.known: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.why_not: str | None = None
        self._reader = reader
        self._changed = changed

    # -- what belongs to the log

    def is_of_log(self, segment: RemoteSegment) -> bool:
        """Whether a segment, as far as it is not below the log's start, has the log's leader epochs."""
        return segment.belongs(self.log.leader_epochs.epoch_for, self.log.log_start_offset)

    def readable(self) -> Iterator[RemoteSegment]:
        """The log's segments in remote storage, in the order of offsets."""
        epochs = [entry.epoch for entry in self.log.leader_epochs.entries]
        return filter(self.is_of_log, self.segments.readable(epochs))

    def find_highest(self) -> int:
        """The last offset that is copied, by the leader epochs from the newest on; -1 if none is."""
        for epoch, _ in reversed(self.log.leader_epochs.entries):
            highest = self.segments.highest_offset(epoch, self.log.log_start_offset)
            if highest >= 0:
                _, end = self.log.end_offset_for_epoch(epoch)
                return min(highest, end - 1)
        return -1

    def find(self, offset: int) -> RemoteSegment | None:
        """The segment that has an offset."""
        return self.segments.find(self.log.leader_epochs.epoch_for(offset), offset)

    # -- reads of a Fetch

    @property
    def max_wait_ms(self) -> int:
        """How long a Fetch waits for the store (`remote.fetch.max.wait.ms`)."""
        return self._reader.settings.max_wait_ms()

    def plan_read(self, start_offset: int, max_bytes: int, upper: LogOffsetMetadata, min_one_message: bool) -> ColdPlan:
        log = self.log
        return ColdPlan(
            self,
            log.segments,
            log.services.workers,
            log.failure,
            start_offset,
            max_bytes=max_bytes,
            upper=upper,
            min_one_message=min_one_message,
        )

    def load(self, offset: int) -> asyncio.Task[Loaded]:
        """The load of what is at an offset: one under way, one that is over and not taken yet, or a new one."""
        return self._reader.loads.get(self, offset, self._load, self._changed)

    def take(self, offset: int, load: asyncio.Task[Loaded]) -> Loaded:
        """What a load has found; it is not kept any longer. Raises KafkaError."""
        return self._reader.loads.take(self, offset, load)

    def end(self) -> None:
        """Give up all reads: the log is not tiered any more, or not led."""
        self._reader.loads.end(self)
        self.known.cancel()

    async def _load(self, offset: int) -> Loaded:
        try:
            await asyncio.shield(self.known)
            while True:
                segment = self.find(offset)
                if segment is None or offset < self.log.log_start_offset:
                    raise OffsetOutOfRange(f"Offset {offset} of {self.log.name} is not in remote storage.")
                try:
                    loaded = await self._load_from(segment, offset)
                except RemoteObjectMissingError:
                    if self.find(offset) is segment:
                        raise
                    continue
                if self.find(offset) is not segment:  # it was removed meanwhile, its transaction index perhaps first
                    continue
                if loaded is not None:
                    return loaded
                offset = segment.end_offset + 1  # batches that a compaction removed, before the topic was tiered
                if offset >= self.log.local_log_start_offset:
                    return await self._load_here(offset)
        except RemoteStoreError as error:
            raise UnknownServerError(f"Offset {offset} of {self.log.name} is in remote storage: {error}") from error

    async def _load_from(self, segment: RemoteSegment, offset: int) -> Loaded | None:
        reader = self._reader
        positions = await reader.positions(segment)
        place = await self._batch_at(segment, positions.lookup(offset), offset)
        if place is None and positions.lookup(offset):
            place = await self._batch_at(segment, 0, offset)
        if place is None:
            return None
        position, size = place
        data = await reader.window(segment, position, size)
        end = position + len(data)
        upper = positions.offset_from(end)
        aborted = await self._aborted(segment, offset, segment.end_offset + 1 if upper is None else upper)
        self._read_ahead(segment, end)
        return Loaded(data, size, segment.start_offset, position, aborted)

    async def _batch_at(self, segment: RemoteSegment, position: int, offset: int) -> tuple[int, int] | None:
        """(position, size) of the first batch from a position on that ends at an offset or later."""
        while position + HEADER_SIZE <= segment.size:
            window = await self._reader.window(segment, position, HEADER_SIZE)
            at = 0
            while at + HEADER_SIZE <= len(window):
                base, length, magic, delta = _OFFSETS.unpack_from(window, at)
                is_whole = _LEAST_LENGTH <= length <= segment.size - position - at - 12
                if not is_whole or magic > 2 or not segment.start_offset <= base <= segment.end_offset:
                    self._reader.forget(segment)
                    raise CorruptMessage(
                        f"Remote segment {segment.id} of {self.log.name} has no batch at {position + at}."
                    )
                if base + delta >= offset:
                    return position + at, length + 12
                at += length + 12
            position += at
        return None

    async def _load_here(self, offset: int) -> Loaded:
        log = self.log
        plan = log.plan_read(offset, self._reader.settings.chunk_bytes, log.end, True)
        data = await plan.read()
        aborted = plan.aborted_transactions(len(data), log.log_end_offset)
        size = read_header(data).size if len(data) >= HEADER_SIZE else 0
        return Loaded(data, size, plan.start.segment_base, plan.start.position, aborted)

    def _read_ahead(self, segment: RemoteSegment, position: int) -> None:
        chunk_bytes = self._reader.settings.chunk_bytes
        if position < segment.size:
            self._reader.read_ahead(segment, position // chunk_bytes)
            return
        following = self.find(segment.end_offset + 1)
        if following is not None and following.start_offset < self.log.segments.first.base_offset:
            self._reader.read_ahead(following, 0)

    async def _aborted(self, segment: RemoteSegment, offset: int, upper: int) -> list[AbortedTxn]:
        """The aborted transactions that touch [offset, upper): their markers may be in any later segment."""
        found: list[AbortedTxn] = []
        for current in self.segments.aborting(segment.start_offset):
            if current.start_offset >= self.log.segments.first.base_offset:
                break
            if current not in (segment, self.find(current.start_offset), self.find(current.end_offset)):
                continue
            entries = await self._reader.aborted(current)
            found += [txn for txn in entries if txn.last_offset >= offset and txn.first_offset < upper]
            if any(txn.last_stable_offset >= upper for txn in entries):
                return found
        here = collect_aborted((one.txn_index for one in self.log.segments), offset, upper)
        return list(dict.fromkeys(found + here))

    # -- replicas that begin behind it

    async def replica_state(self, leader_epoch: int, offset: int) -> ReplicaState:
        """See `Tier`."""
        counts = self._reader.counts
        counts.add(Count.BUILD_REQUESTS, self.log.topic)
        try:
            await asyncio.shield(self.known)
            segment = self.segments.find(leader_epoch, offset)
            if segment is None:
                raise RemoteStoreError(f"offset {offset} in leader epoch {leader_epoch} is not known to be there")
            epochs = await self._reader.index(segment, IndexKind.LEADER_EPOCH, _epochs_in)
            producers = await self._reader.index(segment, IndexKind.PRODUCER_SNAPSHOT, _checked_snapshot)
        except RemoteStoreError as error:
            self.why_not = str(error)
            counts.add(Count.BUILD_ERRORS, self.log.topic)
            raise UnknownServerError(f"{self.log.name} is in remote storage: {error}") from error
        self.why_not = None
        return ReplicaState(segment.end_offset + 1, epochs, producers)

    # -- lookups by time

    async def first_at_or_after(self, timestamp: int) -> TimestampOffsetEpoch | None:
        """See `Tier` (`RemoteLogManager.findOffsetByTimestamp`)."""
        try:
            await asyncio.shield(self.known)
            log = self.log
            for segment in [one for one in self.readable() if one.max_timestamp >= timestamp]:
                if segment.start_offset >= log.local_log_start_offset:
                    return None
                if segment.end_offset >= log.log_start_offset:
                    found = await self._at_or_after(segment, timestamp)
                    if found is not None:
                        return found
        except RemoteStoreError as error:
            raise UnknownServerError(f"{self.log.name} is in remote storage: {error}") from error
        return None

    async def _at_or_after(self, segment: RemoteSegment, timestamp: int) -> TimestampOffsetEpoch | None:
        reader, start = self._reader, self.log.log_start_offset
        indexed = (await reader.times(segment)).lookup(timestamp)
        place = await self._batch_at(segment, (await reader.positions(segment)).lookup(indexed), max(indexed, start))
        while place is not None:
            position, size = place
            window = await reader.window(segment, position, size)
            header = read_header(window)
            if header.max_timestamp >= timestamp:
                for record in records_of(window[:size], header):
                    if record.timestamp >= timestamp and record.offset >= start:
                        return TimestampOffsetEpoch(record.timestamp, record.offset, header.leader_epoch)
            place = await self._batch_at(segment, position + size, start)
        return None


def _epochs_in(content: bytes) -> tuple[EpochEntry, ...]:
    return entries_of(checkpoint_entries(content, "the leader epochs"))


def _checked_snapshot(content: bytes) -> bytes:
    decode_snapshot(content)
    return content
