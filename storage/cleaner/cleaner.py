"""Cleaning one log (Kafka's Cleaner): first the map of the latest offsets, then group after group of segments.

Decisions, and changes that the log's readers see, are made on the loop; reading, copying and renaming happen in worker
threads, in slices short enough that the loop gets the interpreter.

How it works: cleaning one log takes two passes.

1. From the first dirty offset on, the offset map gets the last offset of each key, until the map is full, or up to what
may not be cleaned (the active segment, an open transaction, records that are too young or not on the device). 2. The
segments from the start up to there are copied, several small ones into one new segment. A record stays if the map has
no later offset for its key; a tombstone, and a marker of nothing that is left, only until its delete horizon.

The new segment is `.cleaned` while it is written, and `.swap` once it is on the device, until its sources are out of
the way (Kafka's `LocalLog.replaceSegments`); the log's list of segments changes at that moment. At whichever rename the
machine stops, `storage.log.recovery` finds either all of the old segments or the whole new one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

import structlog

from storage.cleaner.copying import CleanerStats, CopyRules, LastRecord, copy_segment, map_keys
from storage.cleaner.offset_map import OffsetMap
from storage.cleaner.records import CleanedTransactions
from storage.cleaner.selection import LogToClean, group_by_size, segments_between
from storage.cleaner.slices import Slices, Steps
from storage.files import is_transient
from storage.log.log_services import DESCRIPTORS_RETRY_MS
from storage.log.unified_log import UnifiedLog
from storage.segments.segment import LogSegment
from storage.segments.segment_files import CLEANED_SUFFIX, SWAP_SUFFIX
from storage.segments.txn_index import collect_aborted


class CleaningAbortedError(Exception):
    """The log was deleted, or the node is stopping."""


def swap_files(
    log: UnifiedLog, cleaned: LogSegment, replaced: Sequence[LogSegment], snapshots: Sequence[str]
) -> tuple[LogSegment, list[str]]:
    """Rename everything; blocking. Returns the segment under its final name, and the files to remove.

    `snapshots` are the paths of the producer snapshots that belong to the old segments. Raises CleaningAbortedError if
    the log was deleted, and OSError, after which a second call goes on where this one stopped.
    """
    fs = log.services.fs
    if cleaned.file_suffix == CLEANED_SUFFIX:
        with undeleted(log):
            cleaned.change_suffix(SWAP_SUFFIX)
    sync_folder(log)
    with undeleted(log):
        doomed = log.removal.mark_deleted(replaced, snapshots)
        cleaned.change_suffix("")
    sync_folder(log)
    with undeleted(log):
        fresh = LogSegment.open(fs, log.folder, cleaned.base_offset, log.config, jitter_ms=cleaned.jitter_ms)
        fresh.check_indexes()
        return fresh, doomed


@contextmanager
def undeleted(log: UnifiedLog) -> Iterator[None]:
    """A context in which the log cannot be deleted, so its files may be touched. Raises CleaningAbortedError."""
    with log.removal.lock:
        if log.removal.is_stopped:
            raise CleaningAbortedError
        yield


def sync_folder(log: UnifiedLog) -> None:
    """Sync the names in the log's folder. Raises OSError, CleaningAbortedError if the folder is gone."""
    try:
        log.services.fs.fsync_dir(log.folder)
    except FileNotFoundError:
        if log.removal.is_stopped:
            raise CleaningAbortedError from None
        raise


logger = structlog.get_logger(__name__)

T = TypeVar("T")

FLUSH_POLL_MS = 5
LANE = "cleaner"


class Cleaning:
    """One pass over one log."""

    def __init__(self, target: LogToClean, offsets: OffsetMap, slices: Slices, is_stopping: Callable[[], bool]) -> None:
        self._target = target
        self._log = target.log
        self._offsets = offsets
        self._slices = slices
        self._is_stopping = is_stopping
        self._workers = self._log.services.workers.lane(LANE)
        self._transactions = CleanedTransactions()
        self._now_ms = self._log.services.clock.wall_ms()
        self.stats = CleanerStats()

    async def run(self) -> int:
        """Clean the log, and return the offset up to which it is now clean.

        Raises CleaningAbortedError, OSError, KafkaStorage (the log is offline), ValueError and IndexError for records
        that cannot be read.
        """
        target, log = self._target, self._log
        await self._flush(log.log_end_offset)
        start, end = target.first_dirty, target.first_uncleanable
        seen = CleanedTransactions()
        seen.announce(collect_aborted((segment.txn_index for segment in log.segments.from_offset(start)), start, end))
        dirty = segments_between(log, start, end)
        await self._sliced(dirty, map_keys(dirty, start, end, self._offsets, seen))
        clean_to = self._offsets.latest_offset + 1
        if clean_to <= 0:
            return start
        await self._sliced([], self._offsets.flag_latest(start))
        segments = [segment for segment in log.segments if segment.base_offset < clean_to]
        config = log.config
        groups = await self._sliced(
            [], group_by_size(log.services.fs, segments, config.segment_bytes, config.segment_index_bytes, end)
        )
        # Recovery takes gaps past the recovery point for lost writes, so it is checkpointed first.
        await self._workers.call(log.host.checkpoint)
        for group in groups:
            await self._clean_group(group)
        return clean_to

    async def _flush(self, end_offset: int) -> None:
        """Flush the log: what is not on the device may be lost, so it must not replace what is.

        The same holds for markers, wherever they are: a transaction without its marker commits nothing.
        """
        while self._log.flushed.offset < end_offset:
            self._log.flush()
            await self._log.services.clock.machine.sleep(FLUSH_POLL_MS)
            self._check()

    async def _clean_group(self, group: list[LogSegment]) -> None:
        log = self._log
        self._check()
        for segment in group:
            following = log.segments.higher(segment.base_offset)
            upper = log.log_end_offset if following is None else following.base_offset
            self._transactions.announce(
                collect_aborted(
                    (later.txn_index for later in log.segments.from_offset(segment.base_offset)),
                    segment.base_offset,
                    upper,
                )
            )
        cleaned = await self._workers.call(partial(_create, log, group[0], self._now_ms))
        try:
            self._transactions.index = cleaned.txn_index
            rules = CopyRules(
                self._offsets,
                self._transactions,
                _last_records(log),
                self._target.first_uncleanable,
                self._now_ms,
                log.config.delete_retention_ms,
                self.stats,
            )
            await self._sliced(group, _copy(group, cleaned, rules))
            await self._workers.call(partial(_sync_cleaned, log, cleaned, group[-1]))
            self._check()
        except BaseException:
            await self._workers.call(partial(_discard, log, cleaned))
            raise
        await self._swap(cleaned, group)

    async def _swap(self, cleaned: LogSegment, group: list[LogSegment]) -> None:
        log = self._log
        snapshots = [log.producers.snapshots.forget(segment.base_offset) for segment in group[1:]]
        paths = [path for path in snapshots if path is not None]
        try:
            fresh, doomed = await self._retried(partial(swap_files, log, cleaned, group, paths))
        except OSError as error:
            raise log.fail(error) from error
        finally:
            cleaned.file.close()
        log.segments.replace(group, fresh)
        log.flusher.note_removed(group)
        log.removal.unlink_later(group, doomed, log.config.file_delete_delay_ms)

    async def _retried(self, work: Callable[[], T]) -> T:
        """Run work that can be neither undone nor left half done; retry while there is no room or descriptor."""
        while True:
            try:
                return await self._workers.call(work)
            except OSError as error:
                if not is_transient(error):
                    raise
                logger.warning("cleaning waits", partition=self._log.name, error=str(error))
            await self._log.services.clock.machine.sleep(DESCRIPTORS_RETRY_MS)
            self._check()

    def _check(self) -> None:
        if self._is_stopping() or self._log.is_offline:
            raise CleaningAbortedError

    async def _sliced(self, segments: list[LogSegment], steps: Steps[T]) -> T:
        """Run the steps with the segments' files kept open."""
        for segment in segments:
            segment.file.acquire()
        try:
            return await self._slices.run(steps, self._check)
        finally:
            for segment in segments:
                segment.file.release()


def _copy(group: list[LogSegment], cleaned: LogSegment, rules: CopyRules) -> Steps[None]:
    for segment in group:
        yield from copy_segment(segment, cleaned, rules)


def _last_records(log: UnifiedLog) -> dict[int, LastRecord]:
    """The active producers' last records, without which a restart would forget their sequence numbers."""
    return {
        producer_id: LastRecord(entry.batches[-1].last_offset if entry.batches else None, entry.producer_epoch)
        for producer_id, entry in log.producers.producers.items()
    }


def _create(log: UnifiedLog, first: LogSegment, now_ms: int) -> LogSegment:
    """The new segment for a group that starts with `first`; blocking.

    A leftover file would make recovery after a crash mistake a finished segment for an unfinished one.
    """
    fs = log.services.fs
    base_offset, jitter_ms = first.base_offset, first.jitter_ms
    with undeleted(log):
        try:
            return LogSegment.create(
                fs, log.folder, base_offset, log.config, jitter_ms=jitter_ms, now_ms=now_ms, file_suffix=CLEANED_SUFFIX
            )
        except OSError:
            for path in LogSegment(
                fs, log.folder, base_offset, log.config, file_suffix=CLEANED_SUFFIX
            ).existing_files():
                fs.unlink(path)
            raise


def _sync_cleaned(log: UnifiedLog, cleaned: LogSegment, last: LogSegment) -> None:
    """Sync the new segment, and give it the modification time of its newest source; blocking."""
    fs = log.services.fs
    with undeleted(log):
        cleaned.seal()
        fs.set_modified_ms(cleaned.file.path, fs.modified_ms(last.file.path))
    cleaned.sync()


def _discard(log: UnifiedLog, cleaned: LogSegment) -> None:
    cleaned.file.close()
    with log.removal.lock:
        if not log.removal.is_stopped:
            for path in cleaned.existing_files():
                log.services.fs.unlink(path)
