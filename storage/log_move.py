"""Moving a log to another folder of `log.dirs` (KIP-113): its files are copied while it serves, then it changes places.

The copy grows in `<topic>-<partition>.<id>-future`, off the loop. Once all but a little of it is there, and on the
device, the rest happens on the loop at once, so that no append comes between: the tail is copied and synced, the copy
becomes `...-moved`, the old folder `...-delete`, the copy `<topic>-<partition>`, each name synced before the next. At
the start a `-future` folder counts for nothing, a `-moved` one for everything (`log_opening.finish_moves`). The state
of the log in memory stays as it is: only the paths change.
"""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from uuid import UUID

import structlog

from protocol.errors import KafkaError, KafkaStorage
from storage import log_names, partition_metadata
from storage.checkpoints import TopicPartition
from storage.files import FileSystem, write_fully
from storage.index import loading
from storage.leader_epochs import FILE_NAME as EPOCHS_FILE
from storage.leader_epochs import EpochEntry
from storage.log_dirs import LogDir
from storage.log_manager import LogManager
from storage.log_opening import remove_folder
from storage.partition_log import PartitionLog
from storage.producer_snapshot import file_name as snapshot_name
from storage.segment import LOG_SUFFIX, SEGMENT_SUFFIXES, LogSegment, file_name
from storage.segment_file import naming

logger = structlog.get_logger(__name__)

CHUNK = 4 << 20
TAIL = 1 << 20
LONGEST_TAIL = 64 << 20
"""So many bytes at most are copied on the loop: at first, and for a log that grows as fast as it is copied."""
POLL_MS = 50


class MoveEndedError(Exception):
    """The move was given up: the log is gone or offline, or somebody wants it elsewhere."""


class LogMove:
    """One log on its way to the folder `target`.

    Attributes:
        copied_to: the offset up to which the copy has everything.
        size: bytes of the copy.
    """

    def __init__(
        self,
        manager: LogManager,
        log: PartitionLog,
        target: LogDir,
        unique: UUID,
        is_cleaning: Callable[[PartitionLog], bool],
    ) -> None:
        self.log = log
        self.target = target
        self.copied_to = 0
        self.size = 0
        self._manager = manager
        self._services = manager.services
        self._fs: FileSystem = manager.services.fs
        self._key = TopicPartition(log.topic, log.partition)
        self._unique = unique
        self._is_cleaning = is_cleaning
        self._folder = f"{target.path}/{log_names.future_name(self._key, unique)}"
        self._copied: dict[int, int] = {}  # bytes of each segment, by its base offset
        self._complete: set[int] = set()  # segments that were sealed when they were copied
        self._snapshots: set[int] = set()
        self._epochs: tuple[EpochEntry, ...] = ()
        self._tail = TAIL
        self._cancelled = False

    def cancel(self) -> None:
        """Give up at the next step, unless the log has changed places by then."""
        self._cancelled = True

    async def run(self) -> None:
        """Copy, catch up, change places. What fails leaves the log where it is; retention and cleaning rest meanwhile.

        Raises MoveEndedError, OSError, KafkaError if the log went offline while it changed places.
        """
        self._check_wanted()
        manager = self._manager
        manager.moving[self._key] = self.target.path
        moved = False
        try:
            while self._is_cleaning(self.log) or self.log.removal.unsynced:
                await self._services.clock.sleep(POLL_MS)
                self._check_wanted()
            await self._call(self._make_folder)
            while not moved:
                await self._round()
                moved = await self._try_to_swap()
        finally:
            manager.moving.pop(self._key)
            if not moved:
                await self._services.workers.call(self._discard)

    def _check_wanted(self) -> None:
        current = self._manager.logs.get(self._key) is self.log and not self.log.is_offline
        if self._cancelled or self.target.failed or not current:
            raise MoveEndedError

    async def _call(self, work: Callable[[], None]) -> None:
        await self._services.workers.call(work)
        self._check_wanted()

    # -- copying; in worker threads

    def _make_folder(self) -> None:
        self._fs.mkdir(self._folder)
        if self.log.topic_id is not None:
            partition_metadata.write(self._fs, self._folder, self.log.topic_id)
        self._manager.checkpoint_folder(self.target)

    def _discard(self) -> None:
        """Remove the copy; the next start does it where this fails."""
        try:
            if self._fs.exists(self._folder):
                remove_folder(self._fs, self._folder)
        except OSError as error:
            logger.error("cannot remove the copy of a log", folder=self._folder, error=str(error))

    async def _round(self) -> None:
        """Copy what is there now and not in the copy yet, and sync it."""
        end = self.log.log_end_offset
        for step in self._steps():
            await self._call(step)
        self.copied_to = end

    def _steps(self) -> Iterator[Callable[[], None]]:
        """What to do, in order, for the copy to have what the log has when the first is asked for."""
        log = self.log
        active = log.segments.active
        segments = [(one, one.size) for one in log.segments if one.base_offset not in self._complete]
        snapshots = [one for one in log.producers.snapshot_offsets if one not in self._snapshots]
        epochs = log.leader_epochs.entries
        for segment, size in segments:
            yield from self._segment_steps(segment, size, is_active=segment is active)
        for offset in snapshots:
            yield partial(self._copy_file, snapshot_name(offset))
            self._snapshots.add(offset)
        if epochs != self._epochs:
            yield partial(self._copy_file, EPOCHS_FILE)
            self._epochs = epochs
        yield lambda: self._fs.fsync_dir(self._folder)

    def _segment_steps(self, segment: LogSegment, size: int, *, is_active: bool) -> Iterator[Callable[[], None]]:
        base_offset = segment.base_offset
        copied = self._copied.get(base_offset, 0)
        while copied < size:
            count = min(CHUNK, size - copied)
            yield partial(self._copy_range, file_name(base_offset, LOG_SUFFIX), copied, count)
            copied += count
            self.size += count
            self._copied[base_offset] = copied
        # A clean stop syncs the indexes of a touched active segment, and recovery makes them anew.
        yield partial(self._finish_segment, base_offset, sync_indexes=not (is_active and segment.is_touched))
        if not is_active:
            self._complete.add(base_offset)

    def _finish_segment(self, base_offset: int, *, sync_indexes: bool) -> None:
        self._copy_indexes(base_offset, sync=sync_indexes)
        name = file_name(base_offset, LOG_SUFFIX)
        self._sync(name)
        modified_ms = self._fs.modified_ms(f"{self.log.folder}/{name}")
        self._fs.set_modified_ms(f"{self._folder}/{name}", modified_ms)

    def _copy_indexes(self, base_offset: int, *, sync: bool) -> None:
        for suffix in SEGMENT_SUFFIXES:
            name = file_name(base_offset, suffix)
            if suffix != LOG_SUFFIX and self._fs.exists(f"{self.log.folder}/{name}"):
                self._copy_file(name, sync=sync)

    def _copy_file(self, name: str, *, sync: bool = True) -> None:
        """Copy a small file whole."""
        self._copy_range(name, 0, None)
        if sync:
            self._sync(name)

    def _copy_range(self, name: str, start: int, count: int | None) -> None:
        """Copy some bytes, or all; then nothing of what the copy held before is left."""
        source = self._fs.open(f"{self.log.folder}/{name}")
        try:
            data = source.pread(source.size() if count is None else count, start)
        finally:
            source.close()
        if count is not None and len(data) != count:
            raise OSError(f"{self.log.folder}/{name} ends at {start + len(data)}, before {start + count}")
        copy = self._fs.open(f"{self._folder}/{name}", create=True)
        try:
            if count is None:
                copy.truncate(0)
            write_fully(copy, data, start)
        finally:
            copy.close()

    def _sync(self, name: str) -> None:
        file = self._fs.open(f"{self._folder}/{name}", create=True)
        try:
            file.fdatasync()
        finally:
            file.close()

    # -- changing places; on the loop

    async def _try_to_swap(self) -> bool:
        """Change places when no flush of the log is under way; false if too much is missing in the copy by then."""
        ended = asyncio.get_running_loop().create_future()

        def attempt() -> None:
            if ended.done():
                return  # nobody waits for it any more
            try:
                ended.set_result(self._swap())
            except (OSError, KafkaError, MoveEndedError) as error:
                ended.set_exception(error)

        self.log.flusher.when_idle(attempt)
        return bool(await ended)

    def _swap(self) -> bool:
        self._check_wanted()
        log = self.log
        if sum(one.size - self._copied.get(one.base_offset, 0) for one in log.segments) > self._tail:
            # A log that grows as fast as it is copied must end somewhere.
            self._tail = min(self._tail * 2, LONGEST_TAIL)
            return False
        for step in self._steps():
            step()
        old_root, old_folder = log.folder.rpartition("/")[0], log.folder
        doomed = f"{old_root}/{log_names.delete_name(self._key, self._unique)}"
        try:
            with naming, loading, log.leader_epochs.writing:
                self._rename(self._folder, self._moved_folder, self.target.path)
                self._rename(old_folder, doomed, old_root)
                self._rename(self._moved_folder, self._final_folder, self.target.path)
                old_files = log.relocate(self._final_folder)
        except OSError as error:  # which of the two the next start takes is open: neither may grow any more
            raise log.fail(KafkaStorage(f"It could not change places: {error}")) from error
        self._manager.settle_move(log, self.target)
        log.flusher.note_synced()
        self._manager.remove_soon(log, doomed, old_files)
        return True

    def _rename(self, old: str, new: str, root: str) -> None:
        self._fs.rename(old, new)
        self._fs.fsync_dir(root)

    @property
    def _moved_folder(self) -> str:
        return f"{self.target.path}/{log_names.moved_name(self._key, self._unique)}"

    @property
    def _final_folder(self) -> str:
        return f"{self.target.path}/{log_names.folder_name(self._key)}"
