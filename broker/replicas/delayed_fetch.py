"""A Fetch that waits for `fetch.min.bytes` (Kafka's `DelayedFetch`)."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from broker.replicas.bounds import UNREADABLE
from protocol.errors import KafkaError
from storage.log.log_offset import LogOffsetMetadata
from timing.purgatory import DelayedOperation

if TYPE_CHECKING:
    from broker.replicas.bounds import Bounds
    from broker.replicas.fetch_session import Target
    from broker.replicas.partition import Partition
    from protocol.produce_fetch.fetch_response import FetchPartitionResponse

NOWHERE = LogOffsetMetadata(-1)


@dataclass(slots=True)
class PartitionFetch:
    """What a Fetch reads of one partition.

    Attributes:
        offset: where the read starts.
        start: its place in the log; nowhere if it need not be known, as any byte that comes is enough.
        idle_at: the partition's bounds if there was nothing to read; as long as they stay, there still is nothing.
        leader_epoch: the partition's when the read was planned.
        is_held_back: a follower's read that a throttle does not allow now: nothing that comes ends the wait.
    """

    target: Target
    partition: Partition
    result: FetchPartitionResponse
    offset: int = -1
    start: LogOffsetMetadata = NOWHERE
    idle_at: Bounds | None = None
    leader_epoch: int = -1
    is_held_back: bool = False


class DelayedFetch(DelayedOperation):
    """Completes when there are enough bytes, or a partition it reads has changed; then `ready` is set."""

    __slots__ = ("_isolation", "_min_bytes", "_partitions", "_ready")

    def __init__(
        self, partitions: Sequence[PartitionFetch], isolation: int, min_bytes: int, ready: Future[None]
    ) -> None:
        """`isolation` is the place in the bounds of the offset where the reads end."""
        super().__init__()
        self._partitions = partitions
        self._isolation = isolation
        self._min_bytes = min_bytes
        self._ready = ready

    def try_complete(self) -> bool:
        """Do as `DelayedFetch.tryComplete`; also complete for a partition offline, deleted, cut, or at a new segment.

        A log that cannot be read now, or a new leader epoch, ends the wait too: the read that follows tells of it.
        """
        available = 0
        try:
            for fetch in self._partitions:
                partition = fetch.partition
                bounds = partition.bounds
                if partition.leader_epoch != fetch.leader_epoch or bounds is UNREADABLE:
                    return self.force_complete()
                if bounds == fetch.idle_at or fetch.is_held_back:
                    continue
                end_offset = bounds[self._isolation]
                if not bounds[0] <= fetch.offset <= end_offset:
                    return self.force_complete()
                if end_offset == fetch.offset:
                    continue
                end = partition.place(end_offset)
                if end.segment_base != fetch.start.segment_base:  # also if that is nowhere
                    return self.force_complete()
                available += min(end.position - fetch.start.position, fetch.target.max_bytes)
                if available >= self._min_bytes:
                    return self.force_complete()
        except KafkaError:
            return self.force_complete()
        return False

    def on_complete(self) -> None:
        if not self._ready.done():
            self._ready.set_result(None)

    def on_expiration(self) -> None:
        """Do nothing more: an expired Fetch is answered with what there is."""
