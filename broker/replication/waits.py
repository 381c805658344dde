"""Waits at a partition: acknowledgements until they are true, and Fetches until there is enough to read."""

from __future__ import annotations

from asyncio import Future, get_running_loop
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kio.schema.errors import ErrorCode

from broker.replication.bounds import UNREADABLE
from broker.replication.partition import Role
from protocol.errors import KafkaError, Timeout
from protocol.produce_fetch.produce_messages import PartitionProduceResponse, ProduceResponse
from storage.log.log_segments import LogOffsetMetadata
from timing.purgatory import DelayedOperation

if TYPE_CHECKING:
    from broker.replication.bounds import Bounds
    from broker.replication.fetch_session import Target
    from broker.replication.partition import Partition
    from protocol.produce_fetch.fetch_response import FetchPartitionResponse
    from timing.wheel import TimingWheel


WRITE_TIMEOUT_MS = 30_000
"""Kafka's request.timeout.ms between brokers."""


def until_committed(partition: Partition, end: int, wheel: TimingWheel) -> Future[None] | None:
    """Done once the high watermark is at `end`, the offset after an append just made; None if it is there already.

    Fails with Timeout, and with the partition's error as soon as this node no longer leads it.
    """
    if partition.high_watermark >= end:
        return None
    future: Future[None] = get_running_loop().create_future()

    def advanced(high_watermark: int) -> None:
        if high_watermark >= end and not future.done():
            future.set_result(None)

    def failed(error: KafkaError) -> None:
        if not future.done():
            future.set_exception(error)

    unlisten = partition.listen(advanced, failed)
    timer = wheel.add(WRITE_TIMEOUT_MS, lambda: failed(Timeout()))

    def over(_: Future[None]) -> None:
        unlisten()
        timer.cancel()

    future.add_done_callback(over)
    return future


NOWHERE = LogOffsetMetadata(-1)


@dataclass(slots=True)
class PartitionFetch:
    """The read of a Fetch from one partition.

    Attributes:
        offset: where the read starts.
        start: its place in the log; nowhere if it need not be known, as any byte that comes is enough.
        idle_at: the partition's bounds if there was nothing to read; as long as they stay, there still is nothing.
        leader_epoch: the partition's when the read was planned.
        is_held_back: a follower's read that a throttle does not allow now, or one that remote storage was asked for:
            no record that comes ends the wait.
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

    __slots__ = ("_has_changed", "_isolation", "_min_bytes", "_partitions", "_ready")

    def __init__(
        self,
        partitions: Sequence[PartitionFetch],
        isolation: int,
        min_bytes: int,
        ready: Future[None],
        has_changed: Callable[[], bool] = lambda: False,
    ) -> None:
        """`isolation` is the place in the bounds of the offset where the reads end.

        `has_changed`: whether another partition that is fetched, and is none of these, ends the wait.
        """
        super().__init__()
        self._partitions = partitions
        self._isolation = isolation
        self._min_bytes = min_bytes
        self._ready = ready
        self._has_changed = has_changed

    def try_complete(self) -> bool:
        """Do as `DelayedFetch.tryComplete`; also complete for a partition offline, deleted, cut, or at a new segment.

        A log that cannot be read now, or a new leader epoch, ends the wait too: the read that follows tells of it.
        """
        available = 0
        try:
            if self._has_changed():
                return self.force_complete()
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


UNKNOWN_TOPIC_OR_PARTITION = int(ErrorCode.unknown_topic_or_partition)
NOT_LEADER_OR_FOLLOWER = int(ErrorCode.not_leader_or_follower)
NOT_ENOUGH_REPLICAS_AFTER_APPEND = int(ErrorCode.not_enough_replicas_after_append)

_REASONS = {
    Role.LEADER: int(ErrorCode.request_timed_out),
    Role.FOLLOWER: NOT_LEADER_OR_FOLLOWER,
    Role.OFFLINE: int(ErrorCode.kafka_storage_error),
}
"""Why an append of a partition in that role was not committed."""


class Unacknowledged(NamedTuple):
    """An append up to `offset` that is acknowledged once it is committed, or durable here if `all_replicas` is false.

    `led_since` is the partition's at the append: if this node has followed since, the records may be gone.
    """

    partition: Partition
    offset: int
    answer: PartitionProduceResponse
    all_replicas: bool
    led_since: int

    @property
    def is_reached(self) -> bool:
        partition = self.partition
        end = partition.high_watermark if self.all_replicas else partition.durable_end
        return end >= self.offset and partition.led_since == self.led_since

    @property
    def is_decided(self) -> bool:
        partition = self.partition
        return self.is_reached or partition.role is not Role.LEADER or partition.led_since != self.led_since


class DelayedProduce(DelayedOperation):
    """Completes when every append of a Produce request is settled; on expiry the others get REQUEST_TIMED_OUT."""

    __slots__ = ("_future", "_response", "_waiting")

    def __init__(
        self, waiting: Sequence[Unacknowledged], response: ProduceResponse, future: Future[ProduceResponse]
    ) -> None:
        super().__init__()
        self._waiting = waiting
        self._response = response
        self._future = future

    def try_complete(self) -> bool:
        return all(append.is_decided for append in self._waiting) and self.force_complete()

    def on_complete(self) -> None:
        for append in self._waiting:
            error = _error(append)
            if error is None:
                continue
            answer = append.answer
            answer.error_code = error
            answer.base_offset = answer.log_append_time_ms = answer.log_start_offset = -1
        if not self._future.done():
            self._future.set_result(self._response)

    def on_expiration(self) -> None:
        """Do nothing more."""


def _error(append: Unacknowledged) -> int | None:
    """The error of an append; None if it is acknowledged. The ISR may have shrunk since the append."""
    partition = append.partition
    if append.is_reached:
        replicas = partition.replicas if append.all_replicas else None
        return None if replicas is None or replicas.has_enough_replicas else NOT_ENOUGH_REPLICAS_AFTER_APPEND
    if partition.is_deleted:
        return UNKNOWN_TOPIC_OR_PARTITION
    if partition.led_since != append.led_since:
        return NOT_LEADER_OR_FOLLOWER
    return _REASONS[partition.role]
