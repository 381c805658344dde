"""Moving a log to another folder of `log.dirs` (KIP-113): its files are copied while it serves, then it changes places.

The copy grows in `<topic>-<partition>.<id>-future`, in worker threads; nothing on the loop waits for a device:

1. In rounds: each copies and syncs what was appended during the one before, as long as that halves what is missing.
2. Flushes are held back, so that nothing more is promised to be on the device, and one more round is synced.
3. Rounds without a sync, until little is missing. A log that is written as fast as it is copied refuses appends
   (NOT_LEADER_OR_FOLLOWER, which clients retry) during the last one.
4. On the loop, in one go: the little that is missing is copied, the copy becomes `...-moved`, the log goes on in it.
5. In worker threads again: the copy is synced, the old folder becomes `...-delete`, the copy `<topic>-<partition>`,
each name synced before the next. Then flushes resume.

At startup a `-future` folder counts for nothing, while a `-moved` one replaces all others (`log_loading.finish_moves`).
The log's state in memory stays as it is: only the paths change.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from threading import Lock
from uuid import UUID

import structlog

from protocol.errors import KafkaStorage
from protocol.topic_partition import TopicPartition
from storage.files import FileSystem, is_out_of_descriptors, is_transient
from storage.folders import log_names, partition_metadata
from storage.folders.log_copy import LogCopy, SourceError, Step
from storage.folders.log_dirs import LogDir
from storage.folders.log_manager import LogManager
from storage.folders.strays import remove_folder, remove_folder_later
from storage.log.log_services import DESCRIPTORS_RETRY_MS
from storage.log.unified_log import UnifiedLog

logger = structlog.get_logger(__name__)

LANE = "moves"

CAUGHT_UP = (4 << 20, 16)
"""The (bytes, segments) of the log that the copy may lack at the end of step 1."""

COPIED_ON_THE_LOOP = (128 << 10, 2)
"""The (bytes, segments) that are few enough to be copied on the loop in step 4."""

POLL_MS = 50
"""Pause between two checks whether a cleaning or a removal of segments has ended."""

RETRY_MS = 1
"""Pause before the locks are tried again when a file was just being opened."""


class MoveEndedError(Exception):
    """The move was cancelled: the log is gone or offline, or another move replaced this one."""


class LogMove:
    """One log on its way to the folder `target`.

    Attributes:
        copied_to: the offset up to which the copy has everything.
    """

    def __init__(
        self,
        manager: LogManager,
        log: UnifiedLog,
        target: LogDir,
        unique: UUID,
        is_cleaning: Callable[[UnifiedLog], bool],
    ) -> None:
        self.log = log
        self.target = target
        self.copied_to = 0
        self._manager = manager
        self._clock = manager.services.clock.machine
        self._workers = manager.services.workers.lane(LANE)
        self._fs: FileSystem = manager.services.fs
        self._key = TopicPartition(log.topic, log.partition)
        self._unique = unique
        self._is_cleaning = is_cleaning
        self._copy = LogCopy(log, f"{target.path}/{log_names.future_name(self._key, unique)}")
        self._cancelled = self._stopping = False

    @property
    def size(self) -> int:
        """Bytes of the copy."""
        return self._copy.size

    def stop(self) -> None:
        """Give up, as the node is stopping; if the log has changed places, the next start does the rest."""
        self._cancelled = self._stopping = True

    def cancel(self) -> None:
        """Give up at the next step, unless the log has changed places before."""
        self._cancelled = True

    async def run(self) -> None:
        """Copy, catch up, change places; retention and cleaning pause meanwhile.

        If copying fails, the log stays where it is. Raises MoveEndedError, OSError, KafkaError if the log went offline
        while it changed places.
        """
        self._check_wanted()
        manager = self._manager
        manager.moving[self._key] = self.target.path
        moved = False
        try:
            while self._is_cleaning(self.log) or self.log.removal.unsynced:
                await self._clock.sleep(POLL_MS)
                self._check_wanted()
            with self._while_copying():
                await self._call(self._make_folder)
                await self._catch_up()
            await self._hold_flushes()
            try:
                with self._while_copying():
                    old_folder = await self._switch()
                moved = True
                await self._finish(old_folder)
            finally:
                self.log.flusher.release()
        finally:
            manager.moving.pop(self._key)
            if not moved:
                await self._workers.call(self._discard)

    @property
    def _is_current(self) -> bool:
        return self._manager.logs.get(self._key) is self.log and not self.log.is_offline

    def _check_wanted(self) -> None:
        if self._cancelled or self.target.failed or not self._is_current:
            raise MoveEndedError

    async def _call(self, work: Step) -> None:
        await self._workers.call(work)
        self._check_wanted()

    @contextmanager
    def _while_copying(self) -> Iterator[None]:
        """Take a folder offline whose device fails: the log's if it cannot be read, else the copy's."""
        try:
            yield
        except OSError as error:
            failing = self._dir_of(self.log.folder) if isinstance(error, SourceError) else self.target
            self._manager.fail_if_device(failing, error)
            raise

    # -- copying

    def _make_folder(self) -> None:
        self._fs.mkdir(self._copy.folder)
        if self.log.topic_id is not None:
            partition_metadata.write(self._fs, self._copy.folder, self.log.topic_id)
        self._manager.checkpoint_folder(self.target)

    def _discard(self) -> None:
        """Remove the copy; if that fails, the next start does it."""
        try:
            if self._fs.exists(self._copy.folder):
                remove_folder(self._fs, self._copy.folder)
        except OSError as error:
            logger.error("partition copy not removed", folder=self._copy.folder, error=str(error))

    async def _round(self) -> None:
        """Copy what the log has now and the copy lacks."""
        end = self.log.log_end_offset
        await self._do(self._copy.steps())
        self.copied_to = end

    async def _do(self, steps: Iterable[Step]) -> None:
        for step in steps:
            await self._call(step)

    async def _catch_up(self) -> None:
        gains = True
        missing = self._copy.missing()
        while gains and not _within(missing, CAUGHT_UP):
            await self._round()
            await self._do(self._copy.sync_steps())
            before, missing = missing, self._copy.missing()
            gains = _halves(missing, before)

    async def _hold_flushes(self) -> None:
        held = asyncio.get_running_loop().create_future()

        def hold() -> None:
            if not held.done():  # else nobody is waiting for it
                self.log.flusher.hold()
                held.set_result(None)

        self.log.flusher.when_idle(hold)
        await held

    # -- changing places

    async def _switch(self) -> str:
        """Let the log go on in the copy, which counts from now on; return the old folder."""
        await self._round()
        await self._do(self._copy.sync_steps())
        missing = self._copy.missing()
        try:
            while True:
                if not _within(missing, COPIED_ON_THE_LOOP):
                    await self._round()
                    before, missing = missing, self._copy.missing()
                    self.log.held_back = not _halves(missing, before)
                    continue
                with ExitStack() as locks:
                    if self._take_locks(locks):
                        return self._switch_now()
                await self._clock.sleep(RETRY_MS)
                self._check_wanted()
                missing = self._copy.missing()
        finally:
            self.log.held_back = False

    def _switch_now(self) -> str:
        old_folder = self.log.folder
        for step in self._copy.steps():
            step()
        self.copied_to = self.log.log_end_offset
        try:
            self._rename(self._moved_folder)
        except OSError as error:
            if is_transient(error):
                raise  # no name has changed, so the log stays where it is
            raise self._failed(self.target, error) from error
        self._manager.end_move(self.log, self.target)
        return old_folder

    def _take_locks(self, locks: ExitStack) -> bool:
        """Lock every file against being opened by name; return False if one is being opened right now."""
        wanted: list[Lock] = [lock for segment in self.log.segments for lock in segment.locks()]
        for lock in (*wanted, self.log.leader_epochs.writing):
            if not lock.acquire(blocking=False):
                return False
            locks.callback(lock.release)
        return True

    def _rename(self, folder: str) -> None:
        """Rename the copy and point the log at it; the caller holds the locks."""
        self._fs.rename(self._copy.folder, folder)
        self._copy.folder = folder
        self.log.relocate(folder)

    def _failed(self, log_dir: LogDir, error: OSError) -> Exception:
        """Fail the log: the next start may take either of the two folders, so neither may grow."""
        self._manager.fail_if_device(log_dir, error)
        if self._manager.logs.get(self._key) is not self.log:
            return MoveEndedError()
        return self.log.fail(KafkaStorage(f"It could not change places: {error}"))

    async def _finish(self, old_folder: str) -> None:
        """Make all of it durable. If the log is deleted or fails meanwhile, the next start does the rest."""
        end = self.log.end
        target = self.target
        source = self._dir_of(old_folder)
        doomed = f"{source.path}/{log_names.delete_name(self._key, self._unique)}"
        with self._failing(target):
            for step in self._copy.sync_steps():
                await self._retried(step)
            await self._retried(partial(self._fs.fsync_dir, target.path))
        with self._failing(source):
            await self._retried(partial(self._fs.rename, old_folder, doomed), is_transient)
            await self._retried(partial(self._fs.fsync_dir, source.path))
        with self._failing(target):
            await self._take_final_name()
            await self._retried(partial(self._fs.fsync_dir, target.path))
        self.log.flusher.note_synced(end)
        delay_ms = self.log.config.file_delete_delay_ms
        remove_folder_later(self._manager.services, doomed, delay_ms, self._manager.is_released)

    @contextmanager
    def _failing(self, log_dir: LogDir) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._failed(log_dir, error) from error

    async def _retried(self, work: Step, may_pass: Callable[[Exception], bool] = is_out_of_descriptors) -> None:
        """Run work that cannot be undone, retrying while its failure may pass. A failed sync is never retried."""
        while True:
            try:
                await self._workers.call(work)
            except OSError as error:
                await self._wait_after(error, may_pass)
                continue
            self._check_current()
            return

    async def _wait_after(self, error: OSError, may_pass: Callable[[Exception], bool]) -> None:
        if not may_pass(error):
            raise error
        if self._stopping:
            raise MoveEndedError
        logger.warning("partition move waiting for disk", partition=str(self._key), error=str(error))
        await self._clock.sleep(DESCRIPTORS_RETRY_MS)
        self._check_current()

    def _check_current(self) -> None:
        if not self._is_current:
            raise MoveEndedError

    async def _take_final_name(self) -> None:
        while True:
            try:
                with ExitStack() as locks:
                    if self._take_locks(locks):
                        self._rename(self._final_folder)
                        return
            except OSError as error:
                await self._wait_after(error, is_transient)
            await self._clock.sleep(RETRY_MS)
            self._check_current()

    def _dir_of(self, folder: str) -> LogDir:
        return self._manager.log_dir(os.path.abspath(os.path.dirname(folder)))

    @property
    def _moved_folder(self) -> str:
        return f"{self.target.path}/{log_names.moved_name(self._key, self._unique)}"

    @property
    def _final_folder(self) -> str:
        return f"{self.target.path}/{log_names.folder_name(self._key)}"


def _within(missing: tuple[int, int], bound: tuple[int, int]) -> bool:
    return missing[0] <= bound[0] and missing[1] <= bound[1]


def _halves(missing: tuple[int, int], before: tuple[int, int]) -> bool:
    """Whether a round left at most half of what was missing before, in bytes and, rounded up, in segments."""
    return missing[0] * 2 <= before[0] and missing[1] * 2 <= before[1] + 1
