"""Work on the logs of this node: what is done to all of them from time to time, and deletion of records on request.

Kafka's are the tasks of `LogManager` and `ReplicaManager`, and `Partition.deleteRecordsOnLeader` with
`DelayedDeleteRecords` (KIP-107).
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, Protocol

from broker.replication.partition import Role
from protocol.errors import OffsetOutOfRange, PolicyViolation
from storage.cleaner.log_cleaner import LogCleaner
from storage.folders.log_checkpoints import CheckpointError
from storage.log.retention import apply_retention
from storage.producers.producer_state import DEFAULT_EXPIRATION_MS
from timing.purgatory import DelayedOperation

if TYPE_CHECKING:
    from broker.replication.partition import Partition
    from storage.folders.log_manager import LogManager
    from storage.log.unified_log import UnifiedLog

TO_HIGH_WATERMARK = -1


def delete_records(partition: Partition, offset: int) -> int:
    """Raise the log's start to `offset` (-1: the high watermark), as leader; return that offset.

    Raises PolicyViolation if the topic's records may only be compacted, OffsetOutOfRange if `offset` is above the high
    watermark or below 0, and what `Partition.check_leads` does.
    """
    partition.check_leads()
    config = partition.log.config
    if config.compact and not config.delete:
        raise PolicyViolation(f"Records of partition {partition.log.name} may not be deleted by its policy.")
    high_watermark = partition.high_watermark
    if offset == TO_HIGH_WATERMARK:
        offset = high_watermark
    if not 0 <= offset <= high_watermark:
        raise OffsetOutOfRange
    partition.log.increment_log_start_offset(offset)
    return offset


class RecordDeletion(NamedTuple):
    """The records below `offset` are deleted on this leader, and are to be deleted on the followers that are alive."""

    partition: Partition
    offset: int

    @property
    def is_done(self) -> bool:
        """Whether all have deleted them. Only the leader knows that."""
        return self.partition.role is Role.LEADER and self.partition.low_watermark >= self.offset

    @property
    def is_decided(self) -> bool:
        return self.is_done or self.partition.role is not Role.LEADER


class DelayedDelete(DelayedOperation):
    """Completes when every deletion of a request is done, or cannot be any more; then `ready` is set."""

    __slots__ = ("_deletions", "_ready")

    def __init__(self, deletions: Sequence[RecordDeletion], ready: Future[None]) -> None:
        super().__init__()
        self._deletions = deletions
        self._ready = ready

    def try_complete(self) -> bool:
        return all(deletion.is_decided for deletion in self._deletions) and self.force_complete()

    def on_complete(self) -> None:
        if not self._ready.done():
            self._ready.set_result(None)

    def on_expiration(self) -> None:
        """Do nothing more: each partition's answer tells how far it is."""


AT_A_TIME = 50
"""The number of logs that a task handles before the loop gets a turn."""

SEGMENTS_AT_A_TIME = 1000
"""The number of segments searched for idle indexes before the loop gets a turn."""


class HostedPartitions(Protocol):
    """The partitions of this node (`ReplicaManager`)."""

    def get(self, topic: str, index: int) -> Partition | None: ...
    def __iter__(self) -> Iterator[Partition]: ...


class LogMaintenance:
    """Compaction, retention, flushes by time, expiry of producers, checkpoints: each with its own period.

    The cleaner handles logs whose policy includes `compact`, retention included, as in Kafka: without a cleaner
    (`log.cleaner.enable=false`) nothing at all is removed from them.

    Attributes:
        cleaner: compacts logs, once it is configured.
        producer_expiration_ms: how long an idle producer is remembered.
    """

    def __init__(self, logs: LogManager, partitions: HostedPartitions) -> None:
        self._logs = logs
        self._partitions = partitions
        self._clock = logs.services.clock
        self._workers = logs.services.workers.lane("checkpoints")
        self.cleaner = LogCleaner(logs, lambda log: log.high_watermark, self._last_stable_offset)
        self.producer_expiration_ms = DEFAULT_EXPIRATION_MS

    async def stop(self) -> None:
        """Stop compaction; the next start resumes it."""
        await self.cleaner.stop()

    # -- tasks

    async def apply_retention(self) -> None:
        """Remove what logs without compaction no longer keep (`LogManager.cleanupLogs`)."""
        for number, partition in enumerate(list(self._partitions)):
            if number % AT_A_TIME == 0:
                await self._clock.sleep(0)
            log = partition.log
            rests = partition.key in self._logs.moving or self.cleaner.is_busy_with(log)
            if not log.config.compact and not rests:
                apply_retention(log, partition.high_watermark)

    async def expire_producers(self) -> None:
        """Forget producers that have been idle for `producer.id.expiration.ms`."""
        for number, log in enumerate(list(self._logs.logs.values())):
            if number % AT_A_TIME == 0:
                await self._clock.sleep(0)
            log.producers.expiration_ms = self.producer_expiration_ms
            log.producers.remove_expired(self._clock.wall_ms())

    async def drop_idle_indexes(self) -> None:
        """Free the memory of indexes unused for a while; the next reader loads them again."""
        number = 0
        for log in list(self._logs.logs.values()):
            for segment in list(log.segments):
                if segment is not log.segments.active:
                    segment.drop_idle_indexes()
                number += 1
                if number % SEGMENTS_AT_A_TIME == 0:
                    await self._clock.sleep(0)

    async def flush_dirty_logs(self) -> None:
        """Flush what `flush.ms` has let lie long enough."""
        self._logs.flush_dirty_logs()

    async def checkpoint_recovery_points(self) -> None:
        """Write up to where the logs are flushed."""
        await self._checkpoint(self._logs.checkpoint_recovery_points)

    async def checkpoint_log_start_offsets(self) -> None:
        """Write where the logs begin, after records were deleted."""
        await self._checkpoint(self._logs.checkpoint_log_start_offsets)

    async def checkpoint_high_watermarks(self) -> None:
        """Write the high watermarks."""
        await self._checkpoint(self._logs.checkpoint_high_watermarks)

    async def _checkpoint(self, write: Callable[[], None]) -> None:
        """Write checkpoints; a failure has been logged, and has taken its folder offline or is only a lack of room."""
        with suppress(CheckpointError):
            await self._logs.write_checkpoints(write, self._workers)

    def _last_stable_offset(self, log: UnifiedLog) -> int:
        partition = self._partitions.get(log.topic, log.partition)
        return log.log_start_offset if partition is None else partition.last_stable_offset
