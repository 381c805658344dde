"""Which log is cleaned next, and how far each one is (Kafka's LogCleaner and LogCleanerManager)."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from protocol.errors import KafkaError
from storage.checkpoints import TopicPartition
from storage.cleaner.cleaner import LANE, Cleaning
from storage.cleaner.offset_map import OffsetMap
from storage.cleaner.selection import LogToClean, examine
from storage.cleaner.slices import Slices
from storage.cleaner.swap import CleaningAbortedError
from storage.index import CorruptIndexError
from storage.log_manager import LogManager
from storage.partition_log import PartitionLog
from storage.retention import delete_old_segments
from storage.txn_index import CorruptTxnIndexError

logger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class CleanerConfig:
    """The broker's `log.cleaner.*`. Sizes are bytes, for all threads together; times milliseconds."""

    threads: int = 1
    dedupe_buffer_size: int = 128 << 20
    load_factor: float = 0.9
    max_bytes_per_second: float = 1.7976931348623157e308
    backoff_ms: int = 15_000


class LogCleaner:
    """Compacts the logs whose policy says so, and applies retention to them; never two things to one log at a time.

    `high_watermark` and `last_stable_offset` tell a log's offsets as its partition knows them. A log with records that
    cannot be read is left alone until the next start, as in Kafka; after any other failure it is left alone for
    `backoff_ms`.
    """

    def __init__(
        self,
        manager: LogManager,
        high_watermark: Callable[[PartitionLog], int],
        last_stable_offset: Callable[[PartitionLog], int],
        config: CleanerConfig | None = None,
    ) -> None:
        self._manager = manager
        self._services = manager.services
        self._workers = manager.services.workers.lane(LANE)
        self._config = config or CleanerConfig()
        self._high_watermark = high_watermark
        self._last_stable_offset = last_stable_offset
        self._uncleanable: list[PartitionLog] = []
        self._put_off: dict[TopicPartition, float] = {}
        self._in_progress: list[PartitionLog] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._resting: set[asyncio.Task[None]] = set()
        self._stopping = False

    def configure(self, config: CleanerConfig) -> None:
        """Go by this from the next log on, with as many tasks as it says there are threads."""
        self._config = config
        self._tasks = [task for task in self._tasks if not task.done()]
        while len(self._tasks) < config.threads and not self._stopping:
            self._tasks.append(asyncio.ensure_future(self._run()))

    async def stop(self) -> None:
        """Ends what runs at its next step, without waiting for whole logs."""
        self._stopping = True
        for task in self._resting:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def threads(self) -> int:
        """How many tasks it has, at work or waiting."""
        return sum(not task.done() for task in self._tasks)

    def is_busy_with(self, log: PartitionLog) -> bool:
        """Whether it works on this log right now."""
        return log in self._in_progress

    async def _run(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        while not self._stopping and task in self._tasks[: self._config.threads]:
            cleaned = False
            try:
                cleaned = await self.run_once()
            except Exception:
                logger.exception("the log cleaner failed")
            if not cleaned and not self._stopping:
                self._resting.add(task)
                await self._services.clock.sleep(max(self._config.backoff_ms, 1))
                self._resting.discard(task)

    async def run_once(self) -> bool:
        """Clean the log that needs it most, then apply retention; false if none needed cleaning."""
        target = self._choose()
        if target is not None:
            await self._clean(target)
        self._apply_retention()
        return target is not None

    # -- choosing

    def _choose(self) -> LogToClean | None:
        now_ms = self._services.clock.wall_ms()
        self._uncleanable = [log for log in self._uncleanable if self._manager.get(log.topic, log.partition) is log]
        best: LogToClean | None = None
        for partition, log in list(self._manager.logs.items()):
            if not log.config.compact or log.is_offline or log in self._in_progress or log in self._uncleanable:
                continue
            if (
                partition in self._manager.moving
                or self._put_off.get(partition, 0) > self._services.clock.monotonic_ms()
            ):
                continue
            self._put_off.pop(partition, None)
            try:
                found = examine(log, log.cleaned_to, self._last_stable_offset(log), now_ms)
            except OSError as error:
                log.fail(error)
                continue
            if found.is_due and (best is None or found.ratio > best.ratio):
                best = found
        return best

    # -- cleaning

    async def _clean(self, target: LogToClean) -> None:
        log = target.log
        config = self._config
        threads = max(config.threads, 1)
        offsets = OffsetMap(config.dedupe_buffer_size // threads, config.load_factor)
        slices = Slices(self._services.clock, self._workers, config.max_bytes_per_second / threads)
        cleaning = Cleaning(target, offsets, slices, lambda: self._stopping)
        began_ms = self._services.clock.monotonic_ms()
        name = f"{log.topic}-{log.partition}"
        self._in_progress.append(log)
        try:
            clean_to = await cleaning.run()
        except CleaningAbortedError:
            return
        except (ValueError, IndexError, CorruptIndexError, CorruptTxnIndexError) as error:
            logger.error("log cannot be cleaned", partition=name, error=str(error))
            self._uncleanable.append(log)
            return
        except (OSError, KafkaError) as error:
            # The log itself is as it was, or offline by now; a full disk may have room again later.
            self._leave_alone(log, str(error))
            return
        finally:
            self._in_progress.remove(log)
        if clean_to == target.first_dirty:
            self._leave_alone(log, "one batch has more keys than fit into log.cleaner.dedupe.buffer.size")
            return
        stats = cleaning.stats
        logger.info(
            "cleaned log",
            partition=name,
            first_dirty=target.first_dirty,
            clean_to=clean_to,
            bytes_before=stats.bytes_read,
            bytes_after=stats.bytes_written,
            records_before=stats.records_read,
            records_after=stats.records_written,
            keys=len(offsets),
            took_ms=round(self._services.clock.monotonic_ms() - began_ms),
        )
        if stats.records_without_key:
            logger.warning("records without key were removed", partition=name, records=stats.records_without_key)
        log.cleaned_to = clean_to
        await self._workers.call(self._manager.checkpoint_cleaned_offsets)

    def _leave_alone(self, log: PartitionLog, reason: str) -> None:
        logger.error("cleaning failed", partition=f"{log.topic}-{log.partition}", reason=reason)
        until_ms = self._services.clock.monotonic_ms() + self._config.backoff_ms
        self._put_off[TopicPartition(log.topic, log.partition)] = until_ms

    # -- retention

    def _apply_retention(self) -> None:
        busy = (*self._in_progress, *self._uncleanable)
        for partition, log in list(self._manager.logs.items()):
            if log.config.compact and log not in busy and partition not in self._manager.moving:
                try:
                    delete_old_segments(log, self._high_watermark(log))
                except KafkaError as error:
                    logger.error("retention failed", partition=f"{log.topic}-{log.partition}", error=str(error))
