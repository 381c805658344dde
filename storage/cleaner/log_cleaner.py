"""Which log is cleaned next, and up to where each one is clean (Kafka's LogCleaner and LogCleanerManager).

How it works: each thread of `log.cleaner.threads` is a task that, in a loop, takes the dirtiest log that is due and
that no other task has, cleans it, and notes in `cleaner-offset-checkpoint` how far it is clean. With nothing due it
waits for `log.cleaner.backoff.ms`. A log whose cleaning fails is left alone for a while, so that it does not keep the
others from theirs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import structlog

from protocol.errors import KafkaError
from protocol.topic_partition import TopicPartition
from storage.cleaner.cleaner import LANE, Cleaning, CleaningAbortedError
from storage.cleaner.copying import CleanerStats
from storage.cleaner.offset_map import OffsetMap
from storage.cleaner.selection import LogToClean, examine
from storage.cleaner.slices import Slices
from storage.files import is_device_failure
from storage.folders.log_checkpoints import CheckpointError
from storage.folders.log_manager import LogManager
from storage.log.retention import apply_retention
from storage.log.unified_log import UnifiedLog
from storage.segments.index import CorruptIndexError
from storage.segments.txn_index import CorruptTxnIndexError

logger = structlog.get_logger(__name__)

TURN_MS = 2.0


@dataclass(frozen=True, slots=True)
class CleanerConfig:
    """The broker's `log.cleaner.*`. Sizes are bytes, for all threads together; times milliseconds."""

    threads: int = 1
    dedupe_buffer_size: int = 128 << 20
    load_factor: float = 0.9
    max_bytes_per_second: float = 1.7976931348623157e308
    backoff_ms: int = 15_000


class LogCleaner:
    """Compacts the logs whose policy says so, and applies retention to them; a log is never worked on twice at a time.

    `high_watermark` and `last_stable_offset` return a log's offsets as its partition has them. A log with records that
    cannot be read is left alone until the next start, as in Kafka; after any other failure it is left alone for
    `backoff_ms`.
    """

    def __init__(
        self,
        manager: LogManager,
        high_watermark: Callable[[UnifiedLog], int],
        last_stable_offset: Callable[[UnifiedLog], int],
        config: CleanerConfig | None = None,
    ) -> None:
        self._manager = manager
        self._services = manager.services
        self._workers = manager.services.workers.lane(LANE)
        self._config = config or CleanerConfig()
        self._high_watermark = high_watermark
        self._last_stable_offset = last_stable_offset
        self._uncleanable: list[UnifiedLog] = []
        self._put_off: dict[UnifiedLog, float] = {}
        self._in_progress: list[UnifiedLog] = []
        self._choosing = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self._resting: set[asyncio.Task[None]] = set()
        self._stopping = False

    def configure(self, config: CleanerConfig) -> None:
        """Apply from the next log on; the number of tasks becomes `config.threads`."""
        self._config = config
        self._tasks = [task for task in self._tasks if not task.done()]
        while len(self._tasks) < config.threads and not self._stopping:
            self._tasks.append(asyncio.ensure_future(self._run()))

    async def stop(self) -> None:
        """Stop each cleaning at its next step, without finishing its log."""
        self._stopping = True
        for task in self._resting:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def threads(self) -> int:
        """The number of tasks, busy or waiting."""
        return sum(not task.done() for task in self._tasks)

    @property
    def is_busy(self) -> bool:
        """Whether a task is doing something."""
        return len(self._resting) < self.threads

    def is_busy_with(self, log: UnifiedLog) -> bool:
        """Whether it is working on this log right now."""
        return log in self._in_progress

    async def _run(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        while not self._stopping and task in self._tasks[: self._config.threads]:
            cleaned = False
            try:
                cleaned = await self.run_once()
            except Exception:
                logger.exception("log cleaner failed")
            if not cleaned and not self._stopping:
                self._resting.add(task)
                clock = self._services.clock
                await clock.sleep(clock.pause_ms(max(self._config.backoff_ms, 1)))
                self._resting.discard(task)

    async def run_once(self) -> bool:
        """Clean the log that needs it most, then apply retention; False if none needed cleaning."""
        async with self._choosing:
            target = await self._choose()
            if target is not None:
                self._in_progress.append(target.log)
        if target is not None:
            try:
                await self._clean(target)
            finally:
                self._in_progress.remove(target.log)
        await self._apply_retention()
        return target is not None

    # -- choosing

    async def _choose(self) -> LogToClean | None:
        """The log that needs cleaning most, still on return: nothing is awaited after the last look at it."""
        self._uncleanable = [log for log in self._uncleanable if self._exists(log)]
        self._put_off = {log: until_ms for log, until_ms in self._put_off.items() if self._exists(log)}
        while True:
            best: LogToClean | None = None
            async for partition, log in self._each_log():
                found = self._examine(partition, log)
                if found is not None and (best is None or found.ratio > best.ratio):
                    best = found
            if best is None:
                return None
            again = self._examine(TopicPartition(best.log.topic, best.log.partition), best.log)
            if again is not None:
                return again

    async def _each_log(self) -> AsyncIterator[tuple[TopicPartition, UnifiedLog]]:
        """The logs to compact; each still exists when it is yielded. The loop gets a turn every few milliseconds."""
        clock = self._services.clock.machine
        until_ms = clock.monotonic_ms() + TURN_MS
        for partition, log in list(self._manager.logs.items()):
            if clock.monotonic_ms() >= until_ms:
                await clock.sleep(0)
                until_ms = clock.monotonic_ms() + TURN_MS
            if log.config.compact and self._manager.logs.get(partition) is log:
                yield partition, log

    def _exists(self, log: UnifiedLog) -> bool:
        return self._manager.get(log.topic, log.partition) is log

    def _examine(self, partition: TopicPartition, log: UnifiedLog) -> LogToClean | None:
        """The part of a log to clean; None if it is not due, or must not be touched."""
        if log.is_offline or log in self._in_progress or log in self._uncleanable or partition in self._manager.moving:
            return None
        if self._manager.logs.get(partition) is not log:
            return None
        if self._put_off.get(log, 0) > self._services.clock.monotonic_ms():
            return None
        self._put_off.pop(log, None)
        try:
            found = examine(log, log.cleaned_to, self._last_stable_offset(log), self._services.clock.wall_ms())
        except OSError as error:
            self._leave_alone(log, str(log.failure(error)))
            return None
        except KafkaError as error:
            if not log.is_offline:
                self._leave_alone(log, str(error))
            return None
        except Exception:
            logger.exception("log cannot be cleaned", partition=str(partition))
            self._uncleanable.append(log)
            return None
        return found if found.is_due else None

    # -- cleaning

    async def _clean(self, target: LogToClean) -> None:
        log = target.log
        try:
            offsets, slices = self._map_and_slices()
        except (ValueError, ArithmeticError) as error:
            self._leave_alone(log, f"not possible as configured: {error}")
            return
        cleaning = Cleaning(target, offsets, slices, lambda: self._stopping)
        began_ms = self._services.clock.monotonic_ms()
        name = log.name
        try:
            clean_to = await cleaning.run()
        except CleaningAbortedError:
            return
        except (ValueError, IndexError, CorruptIndexError, CorruptTxnIndexError) as error:
            logger.error("log cannot be cleaned", partition=name, error=str(error))
            self._uncleanable.append(log)
            return
        except (OSError, KafkaError) as error:
            # The log is unchanged, or offline by now; a full disk may have room again later.
            if is_device_failure(error):
                log.fail(error)
            self._leave_alone(log, str(error))
            return
        except Exception:  # unforeseen; the other logs must not wait for this one
            logger.exception("log cannot be cleaned", partition=name)
            self._uncleanable.append(log)
            return
        if clean_to == target.first_dirty:
            self._leave_alone(log, "one batch has more keys than fit into log.cleaner.dedupe.buffer.size")
            return
        took_ms = round(self._services.clock.monotonic_ms() - began_ms)
        _tell_cleaned(target, clean_to, cleaning.stats, keys=len(offsets), took_ms=took_ms)
        log.cleaned_to = clean_to
        try:
            await self._manager.write_checkpoints(self._manager.checkpoint_cleaned_offsets, self._workers)
        except CheckpointError as error:  # written again with the next log
            logger.error("cleaned offset not saved", partition=name, error=str(error))

    def _map_and_slices(self) -> tuple[OffsetMap, Slices]:
        """The offset map and the slices of a cleaning.

        Raises ValueError and ArithmeticError if the settings allow no cleaning.
        """
        config = self._config
        threads = max(config.threads, 1)
        offsets = OffsetMap(config.dedupe_buffer_size // threads, config.load_factor)
        return offsets, Slices(self._services.clock.machine, self._workers, config.max_bytes_per_second / threads)

    def _leave_alone(self, log: UnifiedLog, error: str) -> None:
        logger.error("cleaning failed", partition=log.name, error=error)
        until_ms = self._services.clock.monotonic_ms() + self._config.backoff_ms
        self._put_off[log] = until_ms

    # -- retention

    async def _apply_retention(self) -> None:
        async for partition, log in self._each_log():
            busy = log in self._in_progress or log in self._uncleanable or partition in self._manager.moving
            if not busy:
                apply_retention(log, self._high_watermark(log))


def _tell_cleaned(target: LogToClean, clean_to: int, stats: CleanerStats, *, keys: int, took_ms: int) -> None:
    name = target.log.name
    logger.info(
        "cleaned log",
        partition=name,
        first_dirty=target.first_dirty,
        clean_to=clean_to,
        bytes_before=stats.bytes_read,
        bytes_after=stats.bytes_written,
        records_before=stats.records_read,
        records_after=stats.records_written,
        keys=keys,
        took_ms=took_ms,
    )
    if stats.records_without_key:
        logger.warning("records without key removed", partition=name, records=stats.records_without_key)
