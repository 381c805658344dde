"""All logs of this node: loading, creating, deleting, checkpointing (Kafka's LogManager)."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from uuid import UUID

import structlog

from protocol.errors import KafkaError, KafkaStorage, LogDirNotFound
from protocol.topic_partition import TopicPartition
from storage.append_types import LogConfig
from storage.files import is_device_failure, is_transient
from storage.folders import log_names, partition_metadata
from storage.folders.folder_host import FolderHost
from storage.folders.log_checkpoints import (
    CLEANER,
    LOG_START,
    RECOVERY_POINT,
    REPLICATION,
    CheckpointError,
    LogCheckpoints,
)
from storage.folders.log_dirs import LogDir, LogDirs
from storage.folders.log_loading import LogLoader, find_all
from storage.folders.log_opening import FoundLog, offline_log, open_log, read_topic_id
from storage.folders.new_logs import LogPlacement, making
from storage.folders.strays import FolderState, FolderStateOf, clear_away, remove_folder, remove_folder_later
from storage.log.log_services import LogServices
from storage.log.unified_log import UnifiedLog
from storage.producers.producer_state import DEFAULT_EXPIRATION_MS
from storage.workers import Workers

logger = structlog.get_logger(__name__)


class LogManager:
    """The logs of the folders in `dirs`.

    Attributes:
        failures: how many logs went offline, or were missing, since startup.
        on_folder_failed: called once for each folder whose device fails after startup, when its logs are offline.
        closed: how many logs `close` has dealt with.
        unclean: folders of `log.dirs` that do not count as cleanly shut down, however `close` goes.
        damaged: logs that were shut down cleanly and cannot be read; their files are unchanged.
        logs: every open log, by partition.
        moving: the folders that logs are being copied to; retention and cleaning leave those alone.
        recovered: for each segment that was scanned at the start, the bytes cut off.
        placement: the folders of existing and of future logs.
        services: the file system, clock, workers and random source.
    """

    def __init__(
        self,
        services: LogServices,
        dirs: LogDirs,
        *,
        new_id: Callable[[], UUID],
        folder_state_of: FolderStateOf = lambda *_: FolderState.HOSTED,
        producer_expiration_ms: int = DEFAULT_EXPIRATION_MS,
    ) -> None:
        self.services = services
        self.logs: dict[TopicPartition, UnifiedLog] = {}
        self.dirs = dirs
        self._fs = services.fs
        self._new_id = new_id
        self._folder_state_of = folder_state_of
        self.failures = 0
        self.on_folder_failed: Callable[[LogDir], None] = lambda _: None
        self.closed = 0
        self.unclean: set[str] = set()
        self._released = False
        self._producer_expiration_ms = producer_expiration_ms
        self.placement = LogPlacement(dirs)
        self.moving: dict[TopicPartition, str] = {}
        self._checkpoints = LogCheckpoints(self._fs, dirs, self.logs, self.placement.folders, self.moving)
        self.damaged: set[TopicPartition] = set()
        self.recovered: list[int] = []

    @classmethod
    def open(
        cls,
        services: LogServices,
        dirs: LogDirs,
        config_for: Callable[[str], LogConfig],
        *,
        new_id: Callable[[], UUID],
        topic_id_of: Callable[[str], UUID | None] = lambda _: None,
        folder_state_of: FolderStateOf = lambda *_: FolderState.HOSTED,
        recovery_threads: int = 2,
        producer_expiration_ms: int = DEFAULT_EXPIRATION_MS,
    ) -> LogManager:
        """Load every log; those of a folder that was not shut down cleanly are recovered, several at a time.

        Blocking. `config_for` returns a topic's configuration, `topic_id_of` its id, `folder_state_of` whether a topic
        has the partition of a folder; strays are cleared away. A damaged log is offline; so are all logs of a folder
        that fails meanwhile, unless that is the first. Raises OSError, KafkaStorage.
        """
        manager = cls(
            services,
            dirs,
            new_id=new_id,
            folder_state_of=folder_state_of,
            producer_expiration_ms=producer_expiration_ms,
        )
        found = find_all(manager._fs, manager._checkpoints, dirs, new_id, manager.fail_folder)
        LogLoader(manager, dirs, config_for, topic_id_of, folder_state_of, new_id).load_all(found, recovery_threads)
        return manager

    # -- loading (see log_loading)

    def damaged_log(self, found: FoundLog, topic_id: UUID | None, config: LogConfig, reason: Exception) -> UnifiedLog:
        """The offline placeholder for a log that cannot be read."""
        if found.log_dir.clean:
            self.damaged.add(found.partition)
        return self._offline_log(found, topic_id, config, reason)

    def _offline_log(self, found: FoundLog, topic_id: UUID | None, config: LogConfig, reason: Exception) -> UnifiedLog:
        return offline_log(self.services, found, topic_id, config, reason, FolderHost(self, found.log_dir))

    def open_log(self, found: FoundLog, topic_id: UUID | None, config: LogConfig, *, clean: bool) -> UnifiedLog:
        """Open a log that was found, and recover it unless `clean`. Blocking; raises OSError."""
        return open_log(
            self.services,
            found,
            topic_id,
            config,
            clean=clean,
            host=FolderHost(self, found.log_dir),
            producer_expiration_ms=self._producer_expiration_ms,
            note_recovered=self.recovered.append,
        )

    # -- logs

    @property
    def usable_dirs(self) -> list[LogDir]:
        """The folders of `log.dirs` whose device has not failed."""
        return [log_dir for log_dir in self.dirs.dirs if not log_dir.failed]

    @property
    def failed_folders(self) -> set[str]:
        """The folders of `log.dirs` whose device failed, as they are spelled there."""
        return {log_dir.path for log_dir in self.dirs.dirs if log_dir.failed}

    def get(self, topic: str, partition: int) -> UnifiedLog | None:
        """The open log of a partition."""
        return self.logs.get(TopicPartition(topic, partition))

    def absent_log(self, topic: str, partition: int, topic_id: UUID, config: LogConfig) -> UnifiedLog | None:
        """An offline log for a partition found in no usable folder, if a failed one may have it; for startup.

        A partition's folder is recorded only in that folder itself.
        """
        failed = next((log_dir for log_dir in self.dirs.dirs if log_dir.failed), None)
        if failed is None:
            return None
        key = TopicPartition(topic, partition)
        reason = OSError("its log directory cannot be used")
        log = self._offline_log(FoundLog(key, failed), topic_id, config, reason)
        self.placement.place(key, failed.path)
        self.adopt(log)
        return log

    def unmade_log(self, topic: str, partition: int, topic_id: UUID, config: LogConfig) -> UnifiedLog:
        """An offline log, which is nowhere, for a partition whose log could not be made yet."""
        found = FoundLog(TopicPartition(topic, partition), self.dirs.dirs[0])
        return self._offline_log(found, topic_id, config, OSError("its log could not be made yet"))

    def plan_log(
        self,
        topic: str,
        partition: int,
        topic_id: UUID,
        config: LogConfig,
        leader_epoch: int | None,
        directory: UUID | None = None,
    ) -> Callable[[], UnifiedLog]:
        """Choose the folder of a new log: that with the id `directory`, if there is one. Followers have no epoch.

        The returned function makes the log. It may block, may run in any thread, and raises LogsNotMadeError; call
        `sync_folders` after the last of several. Then `adopt` the log on the loop, or `abandon` the plan. Raises
        KafkaStorage.
        """
        key = TopicPartition(topic, partition)
        if not log_names.is_valid(key):
            raise KafkaStorage(f"No folder can be made for {key!r}: that is no name of a partition.")
        log_dir = self.placement.choose(key, directory)
        self.placement.place(key, log_dir.path)
        return partial(self._make_log, key, log_dir, topic_id, config, leader_epoch)

    def leave(self, key: TopicPartition) -> str:
        """Note that the log is gone from its folder; return the folder."""
        self.damaged.discard(key)
        return self.placement.leave(key)

    def _make_log(
        self, key: TopicPartition, log_dir: LogDir, topic_id: UUID, config: LogConfig, leader_epoch: int | None
    ) -> UnifiedLog:
        folder = f"{log_dir.path}/{log_names.folder_name(key)}"
        with making(log_dir):
            if self._fs.exists(folder):  # left behind by a failure
                known_as = read_topic_id(self._fs, FoundLog(key, log_dir), None)
                state = self._folder_state_of(key, known_as, log_dir.closed_in)
                if state is FolderState.HOSTED:  # what an attempt to make the log left, unless it has records
                    state = FolderState.STRAY
                clear_away(self._fs, log_dir.path, key, state, self._new_id())
        for other in self.dirs.dirs:
            if other is not log_dir and not other.failed:  # a deleted log of that name must be gone
                with making(other):
                    self._fs.fsync_dir(other.path)
        with making(log_dir):
            self._checkpoints.forget_predecessor(key, log_dir)
            self._fs.mkdir(folder)
            log = self.open_log(FoundLog(key, log_dir), topic_id, config, clean=True)
            partition_metadata.write(self._fs, folder, topic_id)
            if leader_epoch is None:
                self._fs.fsync_dir(folder)
            else:
                log.leader_epochs.assign(leader_epoch, 0)  # syncs the folder, and with it the other names
        return log

    def sync_folders(self) -> None:
        """Sync the names of new logs' folders; blocking, any thread. Raises LogsNotMadeError."""
        for log_dir in self.dirs.dirs:
            if not log_dir.failed:
                with making(log_dir):
                    self._fs.fsync_dir(log_dir.path)

    def adopt(self, log: UnifiedLog) -> None:
        """Register a log made by a plan; it is offline if its folder has failed meanwhile."""
        key = TopicPartition(log.topic, log.partition)
        self.logs[key] = log
        self.placement.created(key)
        if self.placement.folders[key] in self.failed_folders:
            log.fail(OSError("its log directory has failed"))

    def abandon(self, topic: str, partition: int, log: UnifiedLog | None) -> Callable[[], None]:
        """Give up a plan and its log; the returned function removes the files, may block and raises OSError."""
        key = TopicPartition(topic, partition)
        folder = f"{self.leave(key)}/{log_names.folder_name(key)}"
        if log is not None:
            log.retire()
        return lambda: remove_folder(self._fs, folder) if self._fs.exists(folder) else None

    def delete_log_soon(self, topic: str, partition: int) -> None:
        """Close the log and rename its folder now; remove it after `file.delete.delay.ms`. Raises KafkaStorage.

        The new name is not synced.
        """
        key = TopicPartition(topic, partition)
        log = self.logs.pop(key)
        root = self.leave(key)
        folder = f"{root}/{log_names.delete_name(key, self._new_id())}"
        log.retire()
        try:
            self._fs.rename(log.folder, folder)
        except OSError as error:
            self.unclean.add(root)  # so that the next start takes the folder for a deleted topic's
            raise KafkaStorage(f"Cannot delete the log of {key}: {error}") from error
        remove_folder_later(self.services, folder, log.config.file_delete_delay_ms, self.is_released)

    # -- moving (see log_move)

    def log_dir(self, path: str) -> LogDir:
        """The folder of `log.dirs` at an absolute path. Raises LogDirNotFound if there is none."""
        for log_dir in self.dirs.dirs:
            if os.path.abspath(log_dir.path) == path:
                return log_dir
        raise LogDirNotFound(f"{path} is none of log.dirs")

    def checkpoint_folder(self, log_dir: LogDir) -> None:
        """Write the checkpoints that loading one folder reads; blocking. Raises OSError."""
        self._checkpoints.write_folder(log_dir)

    def end_move(self, log: UnifiedLog, target: LogDir) -> None:
        """Note that the log lies in `target` from now on."""
        key = TopicPartition(log.topic, log.partition)
        self.leave(key)
        self.placement.place(key, target.path)
        log.host = FolderHost(self, target)

    # -- flushing, checkpoints, closing

    def flush_dirty_logs(self) -> None:
        """Ask for a flush of every log whose last one is longer ago than its `flush.ms` (LogManager.flushDirtyLogs)."""
        now_ms = self.services.clock.monotonic_ms()
        for log in self.logs.values():
            if now_ms - log.flusher.last_flush_ms >= log.config.flush_ms:
                log.flush()

    async def write_checkpoints(self, write: Callable[[], None], workers: Workers) -> None:
        """Run a `checkpoint_...` method on a worker thread; an error takes its folder offline (KIP-112).

        If only room or descriptors are missing, the next attempt may succeed. Raises CheckpointError.
        """
        try:
            await workers.call(write)
        except CheckpointError as error:
            for log_dir, failure in error.failures:
                if is_transient(failure):
                    self.services.shortages.note(log_dir.path, failure)
                else:
                    self.fail_folder(log_dir, failure)
            raise

    def checkpoint_recovery_points(self) -> None:
        """Write `recovery-point-offset-checkpoint`; blocking, any thread. Raises CheckpointError."""
        self._checkpoints.write_all(RECOVERY_POINT)

    def checkpoint_log_start_offsets(self, folder: str | None = None) -> None:
        """Write `log-start-offset-checkpoint` of one or all folders; blocking, any thread. Raises CheckpointError."""
        self._checkpoints.write_all(LOG_START, folder=folder)

    def checkpoint_high_watermarks(self) -> None:
        """Write `replication-offset-checkpoint`; blocking, any thread. Raises CheckpointError."""
        self._checkpoints.write_all(REPLICATION)

    def checkpoint_cleaned_offsets(self) -> None:
        """Write `cleaner-offset-checkpoint`; blocking, any thread. Raises CheckpointError."""
        self._checkpoints.write_all(CLEANER)

    def checkpoint_truncated(self, log_dir: LogDir) -> None:
        """Write the checkpoints of a folder in which a log is cut or compacted next; blocking. Raises OSError."""
        self._checkpoints.write_truncated(log_dir)

    def fail_folder(self, log_dir: LogDir, error: Exception) -> None:
        """Take all logs of a folder whose device failed offline; it gets no new ones (KIP-112)."""
        if log_dir.failed:
            return
        log_dir.failed = True
        logger.error("log directory offline", path=log_dir.path, error=str(error))
        for key, log in list(self.logs.items()):
            if self.placement.folders.get(key) == log_dir.path:
                log.fail(error)
        self.on_folder_failed(log_dir)

    def fail_if_device(self, log_dir: LogDir, error: Exception) -> None:
        """Take the folder offline if this error means that its device failed, rather than a single file."""
        if is_device_failure(error):
            self.fail_folder(log_dir, error)

    def close(self, broker_epoch: int = -1) -> None:
        """Flush and close every log, write the checkpoints, and last the clean-shutdown files; unlock the folders.

        `broker_epoch` is that of this run. A log that is or goes offline, or a checkpoint that cannot be written, keeps
        its folder from counting as clean; the other folders are still closed. Blocking; raises OSError, and the first
        KafkaStorage or CheckpointError.
        """
        failures: list[KafkaError | OSError] = []
        spoiled = set(self.unclean)
        try:
            for log in self.logs.values():
                failure = _close(log)
                if failure is not None:
                    failures.append(failure)
                self.closed += 1
            for name in (RECOVERY_POINT, LOG_START, REPLICATION):
                try:
                    self._checkpoints.write_all(name)
                except CheckpointError as error:
                    failures.append(error)
                    spoiled |= {log_dir.path for log_dir, _ in error.failures}
            offline = {key for key, log in self.logs.items() if log.is_offline}
            spoiled |= {self.placement.folders[key] for key in offline - self.damaged}
            self.dirs.mark_clean(spoiled, broker_epoch)
            if failures:
                raise failures[0]
        finally:
            self.release()

    def is_released(self) -> bool:
        return self._released

    def release(self) -> None:
        """Close the files and unlock the folders, and no more: the disk is left as a kill would leave it."""
        self._released = True
        for log in self.logs.values():
            log.removal.stop()
            log.release_files()
        self.dirs.unlock()

    def retire(self) -> None:
        """Let go of the logs, whose folders are about to get other contents: no file of them is touched any more."""
        self._released = True
        for log in self.logs.values():
            log.retire()


def _close(log: UnifiedLog) -> KafkaError | None:
    try:
        if not log.is_offline:
            log.close()
    except KafkaError as error:
        return error
    return None
