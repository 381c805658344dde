"""A Fetch that waits for `fetch.min.bytes` (Kafka's `DelayedFetch`)."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from protocol.errors import KafkaError
from timing.purgatory import DelayedOperation

if TYPE_CHECKING:
    from broker.partitions.fetch_session import Target
    from broker.partitions.partition import Partition
    from storage.segments.segment import LogOffsetMetadata


@dataclass(slots=True)
class Watched:
    """A partition that a waiting Fetch reads, and where that read starts in its log."""

    partition: Partition
    target: Target
    start: LogOffsetMetadata


class DelayedFetch(DelayedOperation):
    """Completes when enough bytes are there, or a partition it reads has changed; then `ready` is set."""

    __slots__ = ("_isolation_level", "_min_bytes", "_ready", "_watched")

    def __init__(self, watched: Sequence[Watched], isolation_level: int, min_bytes: int, ready: Future[None]) -> None:
        super().__init__()
        self._watched = watched
        self._isolation_level = isolation_level
        self._min_bytes = min_bytes
        self._ready = ready

    def try_complete(self) -> bool:
        """Do as `DelayedFetch.tryComplete`: also for a partition offline, deleted, fenced, cut, or at a new segment."""
        available = 0
        for one in self._watched:
            partition, start = one.partition, one.start
            if partition.is_deleted:
                return self.force_complete()
            try:
                partition.check_leader_epoch(one.target.current_leader_epoch)  # and that its log is online
            except KafkaError:
                return self.force_complete()
            if start.offset < partition.log_start_offset:  # records were deleted
                return self.force_complete()
            end_offset = partition.end_offset_for(self._isolation_level)
            if end_offset == start.offset:
                continue
            end = partition.place(end_offset)
            if end_offset < start.offset or end.segment_base != start.segment_base:
                return self.force_complete()
            available += min(end.position - start.position, one.target.max_bytes)
        return available >= self._min_bytes and self.force_complete()

    def on_complete(self) -> None:
        if not self._ready.done():
            self._ready.set_result(None)

    def on_expiration(self) -> None:
        """Do nothing more: an expired Fetch answers with what there is."""
