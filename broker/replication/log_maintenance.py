"""Deleting the oldest records (KIP-107; Kafka's `Partition.deleteRecordsOnLeader`, `DelayedDeleteRecords`).

Periodic work on the logs (the tasks of Kafka's `LogManager` and `ReplicaManager`).
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, Protocol

from broker.replication.partition import Role
from protocol.errors import OffsetOutOfRange, PolicyViolation
from storage.cleaner.log_cleaner import CleanerConfig, LogCleaner
from storage.folders.log_checkpoints import CheckpointError
from storage.log.retention import apply_retention
from storage.producers.producer_state import DEFAULT_EXPIRATION_MS
from timing.purgatory import DelayedOperation

if TYPE_CHECKING:
    from broker.config.broker_config import BrokerConfig
    from broker.periodic import Periodic
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


class Deletion(NamedTuple):
    """The records below `offset` are deleted on this leader, and are to be deleted on the followers that are alive."""

    partition: Partition
    offset: int

    @property
    def is_done(self) -> bool:
        """Whether all have deleted them. Only the leader knows that."""
        return self.partition.role is Role.LEADER and self.partition.low_watermark >= self.offset

    @property
    def is_settled(self) -> bool:
        return self.is_done or self.partition.role is not Role.LEADER


class DelayedDelete(DelayedOperation):
    """Completes when every deletion of a request is done, or cannot be any more; then `ready` is set."""

    __slots__ = ("_deletions", "_ready")

    def __init__(self, deletions: Sequence[Deletion], ready: Future[None]) -> None:
        super().__init__()
        self._deletions = deletions
        self._ready = ready

    def try_complete(self) -> bool:
        return all(deletion.is_settled for deletion in self._deletions) and self.force_complete()

    def on_complete(self) -> None:
        if not self._ready.done():
            self._ready.set_result(None)

    def on_expiration(self) -> None:
        """Do nothing more: each partition's answer tells how far it is."""


AT_A_TIME = 50
"""The number of logs that a task handles before the loop gets a turn."""

SEGMENTS_AT_A_TIME = 1000
"""The number of segments searched for idle indexes before the loop gets a turn."""

INDEX_IDLE_MS = 60_000
"""Time between two searches for idle indexes; one not used since the last search is dropped."""


class HostedPartitions(Protocol):
    """The partitions of this node (`ReplicaManager`)."""

    def get(self, topic: str, index: int) -> Partition | None: ...
    def __iter__(self) -> Iterator[Partition]: ...


class LogMaintenance:
    """Compaction, retention, flushes by time, expiry of producers, checkpoints: each with its own period.

    The cleaner handles logs whose policy includes `compact`, retention included, as in Kafka: without a cleaner
    (`log.cleaner.enable=false`) nothing at all is removed from them.

    Attributes:
        cleaner: compacts logs.
    """

    def __init__(self, logs: LogManager, partitions: HostedPartitions) -> None:
        self._logs = logs
        self._partitions = partitions
        self._clock = logs.services.clock
        self._workers = logs.services.workers.lane("checkpoints")
        self.cleaner = LogCleaner(logs, lambda log: log.high_watermark, self._last_stable_offset)
        self._cleans = False
        self._producer_expiration_ms = DEFAULT_EXPIRATION_MS

    def start(self, config: BrokerConfig, periodic: Periodic) -> None:
        """Schedule the tasks, each at its configured interval."""

        def every(key: str, job: Callable[[], Awaitable[None]], *, first_ms: int | None = None) -> None:
            pause_ms = config.integer(key)
            periodic.every(pause_ms, key, job, first_ms=pause_ms if first_ms is None else min(first_ms, pause_ms))

        initial_ms = config.integer("log.initial.task.delay.ms")
        every("log.retention.check.interval.ms", self.apply_retention, first_ms=initial_ms)
        every("log.flush.scheduler.interval.ms", self._flush_dirty_logs, first_ms=initial_ms)
        every("log.flush.offset.checkpoint.interval.ms", self._checkpoint_recovery_points, first_ms=initial_ms)
        every("log.flush.start.offset.checkpoint.interval.ms", self._checkpoint_log_start_offsets, first_ms=initial_ms)
        every("replica.high.watermark.checkpoint.interval.ms", self._checkpoint_high_watermarks)
        every("producer.id.expiration.check.interval.ms", self.expire_producers)
        periodic.every(INDEX_IDLE_MS, "drop idle indexes", self.drop_idle_indexes)
        self._cleans = config.boolean("log.cleaner.enable")
        self.reconfigure(config)

    def reconfigure(self, config: BrokerConfig) -> None:
        """Apply a changed configuration, from the cleaner's next log and the next expiry on."""
        self._producer_expiration_ms = config.integer("producer.id.expiration.ms")
        if self._cleans:
            self.cleaner.configure(
                CleanerConfig(
                    threads=config.integer("log.cleaner.threads"),
                    dedupe_buffer_size=config.integer("log.cleaner.dedupe.buffer.size"),
                    load_factor=config.double("log.cleaner.io.buffer.load.factor"),
                    max_bytes_per_second=config.double("log.cleaner.io.max.bytes.per.second"),
                    backoff_ms=config.integer("log.cleaner.backoff.ms"),
                )
            )

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
            log.producers.expiration_ms = self._producer_expiration_ms
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

    async def _flush_dirty_logs(self) -> None:
        self._logs.flush_dirty_logs()

    async def _checkpoint_recovery_points(self) -> None:
        await self._checkpoint(self._logs.checkpoint_recovery_points)

    async def _checkpoint_log_start_offsets(self) -> None:
        await self._checkpoint(self._logs.checkpoint_log_start_offsets)

    async def _checkpoint_high_watermarks(self) -> None:
        await self._checkpoint(self._logs.checkpoint_high_watermarks)

    async def _checkpoint(self, write: Callable[[], None]) -> None:
        """Write checkpoints; a failure has been logged, and has taken its folder offline or is only a lack of room."""
        with suppress(CheckpointError):
            await self._logs.write_checkpoints(write, self._workers)

    def _last_stable_offset(self, log: UnifiedLog) -> int:
        partition = self._partitions.get(log.topic, log.partition)
        return log.log_start_offset if partition is None else partition.last_stable_offset
