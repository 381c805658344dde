"""Finding and loading all logs at startup (the loading half of Kafka's LogManager)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

import structlog

from protocol.errors import KafkaError, KafkaStorage
from protocol.topic_partition import TopicPartition
from storage import damage
from storage.folders import log_names, partition_metadata
from storage.folders.log_checkpoints import CLEANER, LOG_START, RECOVERY_POINT, REPLICATION
from storage.folders.log_dirs import each_usable
from storage.folders.log_opening import FoundLog, read_topic_id
from storage.folders.strays import FolderState, FolderStateOf, clear_away, is_new, remove_folder

if TYPE_CHECKING:
    from storage.append_types import LogConfig
    from storage.files import FileSystem
    from storage.folders.log_checkpoints import LogCheckpoints
    from storage.folders.log_dirs import LogDir, LogDirs
    from storage.folders.log_manager import LogManager
    from storage.log.log_services import LogServices
    from storage.log.unified_log import UnifiedLog

logger = structlog.get_logger(__name__)

T = TypeVar("T")

PROGRESS_MS = 2000
"""How often a long load logs its progress."""


class LogLoader:
    """Loads the logs in the folders into `manager`; blocking. The three functions know the topics."""

    def __init__(
        self,
        manager: LogManager,
        dirs: LogDirs,
        config_for: Callable[[str], LogConfig],
        topic_id_of: Callable[[str], UUID | None],
        folder_state_of: FolderStateOf,
        new_id: Callable[[], UUID],
    ) -> None:
        self._manager = manager
        self._services: LogServices = manager.services
        self._dirs = dirs
        self._config_for = config_for
        self._topic_id_of = topic_id_of
        self._folder_state_of = folder_state_of
        self._new_id = new_id

    def load_all(self, found: Sequence[FoundLog], recovery_threads: int) -> None:
        """Load all logs that a topic has, and clear the others away.

        Those of a folder that was not shut down cleanly are recovered, several at a time. A damaged log is offline; so
        are all of a folder that fails meanwhile, unless that is the first. Raises OSError, KafkaStorage.
        """
        clock = self._services.clock
        started = last_logged_ms = clock.monotonic_ms()
        found = self._hosted(found)
        unclean = [log_dir.path for log_dir in self._dirs.dirs if not log_dir.clean and not log_dir.failed]
        if found and unclean:
            logger.info("recovering logs after an unclean shutdown", log_dirs=unclean, partitions=len(found))
        jobs = [partial(self._load, item, self._config_for(item.partition.topic)) for item in found]
        threads = recovery_threads if unclean else 1
        for done, (item, log) in enumerate(zip(found, run_in_order(jobs, threads), strict=True), 1):
            if isinstance(log, OSError):
                self._manager.fail_folder(item.log_dir, log)
                continue
            self._take(log, item.log_dir)
            self._services.tell(f"{'recovering' if unclean else 'loading'} logs: {done} of {len(found)} done")
            if clock.monotonic_ms() - last_logged_ms >= PROGRESS_MS:
                last_logged_ms = clock.monotonic_ms()
                logger.info("loading logs", done=done, of=len(found), last=str(item.partition))
        for item in found:
            self._name_topic(item)
        if found:
            took, recovered = round(clock.monotonic_ms() - started), self._manager.recovered
            counts = {"segments_recovered": len(recovered), "truncated_bytes": sum(recovered)} if recovered else {}
            logger.info("logs loaded", partitions=len(found), took_ms=took, clean=not unclean, **counts)

    def _hosted(self, found: Sequence[FoundLog]) -> list[FoundLog]:
        """The logs that a topic has, with their topic ids; others are cleared away, and I/O errors fail their folders.

        Raises KafkaStorage if two are the same partition, as `_choose` says. Raises OSError.
        """
        hosted: dict[TopicPartition, FoundLog] = {}
        for item in found:
            try:
                self._host(item, hosted)
            except OSError as error:
                if item.log_dir is self._dirs.dirs[0]:
                    raise
                self._manager.fail_folder(item.log_dir, error)
        return list(hosted.values())

    def _host(self, found: FoundLog, hosted: dict[TopicPartition, FoundLog]) -> None:
        if found.log_dir.failed:
            return
        key, fs = found.partition, self._services.fs
        found = replace(found, topic_id=read_topic_id(fs, found, self._topic_id_of(key.topic)))
        state = self._folder_state_of(key, found.topic_id, found.log_dir.closed_in)
        other = hosted.get(key)
        if state is not FolderState.HOSTED:
            clear_away(fs, found.log_dir.path, key, state, self._new_id())
        elif other is None:
            hosted[key] = found
        else:
            hosted[key], doomed = self._choose(other, found)
            clear_away(fs, doomed.log_dir.path, key, FolderState.STRAY, self._new_id())

    def _choose(self, found: FoundLog, other: FoundLog) -> tuple[FoundLog, FoundLog]:
        """The folder to go on with, and the one that a log never was in: its making failed, or it tells no topic id.

        Raises KafkaStorage if either may be the log.
        """
        fs = self._services.fs
        if (found.topic_id is None) != (other.topic_id is None):
            return (found, other) if other.topic_id is None else (other, found)
        if is_new(fs, other.folder):
            return found, other
        if is_new(fs, found.folder):
            return other, found
        raise KafkaStorage(f"Two log directories hold {found.partition}: {found.folder}, {other.folder}")

    def _load(self, found: FoundLog, config: LogConfig) -> UnifiedLog | OSError:
        """The log, or the error because of which its whole folder cannot be used. Any thread."""
        if found.log_dir.failed:
            return OSError("its log directory has failed")
        try:
            return self._manager.open_log(found, found.topic_id, config, clean=found.log_dir.clean)
        except OSError as error:
            if found.log_dir is self._dirs.dirs[0]:
                raise
            return error
        except KafkaError as error:
            done = "the partition is offline, its files are as they were"
            advice = f"restore the folder from a backup, or stop the broker and run `odradek log repair {found.folder}`"
            damage.report(found.folder, error, done, advice)
            return self._manager.damaged_log(found, found.topic_id, config, error)
        except Exception as error:  # the other logs must not wait for this one
            logger.exception("log not loaded, the partition is offline", folder=found.folder)
            return self._manager.damaged_log(found, found.topic_id, config, error)

    def _take(self, log: UnifiedLog, log_dir: LogDir) -> None:
        key = TopicPartition(log.topic, log.partition)
        self._manager.logs[key] = log
        self._manager.placement.place(key, log_dir.path)
        if log_dir.failed:
            log.fail(OSError("its log directory has failed"))

    def _name_topic(self, found: FoundLog) -> None:
        """Give a log without a topic id that of its topic; Kafka would mark it as stray."""
        log = self._manager.logs.get(found.partition)
        if log is None or log.folder != found.folder or log.topic_id is not None or log.is_offline:
            return
        topic_id = self._topic_id_of(log.topic)
        if topic_id is None:
            return
        logger.warning(
            "partition.metadata missing", partition=str(found.partition), advice="none needed: it is written anew"
        )
        log.topic_id = topic_id
        try:
            partition_metadata.write(self._services.fs, log.folder, topic_id)
            self._services.fs.fsync_dir(log.folder)
        except OSError as error:  # the next start tries again
            logger.warning("partition.metadata not written", partition=str(found.partition), error=str(error))


def find_all(
    fs: FileSystem,
    checkpoints: LogCheckpoints,
    dirs: LogDirs,
    new_id: Callable[[], UUID],
    fail: Callable[[LogDir, Exception], None],
) -> list[FoundLog]:
    """The logs of every usable folder; the folders no longer count as cleanly shut down.

    A folder with an I/O error is skipped (`fail`), unless it is the first. Blocking; raises OSError.
    """
    for log_dir, moved in each_usable(dirs.dirs, partial(moved_logs, fs), fail):
        others = [other for other in dirs.dirs if other is not log_dir and not other.failed]
        finish_moves(fs, log_dir, moved, others, new_id)
    found = each_usable(dirs.dirs, partial(find_logs, fs, checkpoints), fail)
    each_usable(dirs.dirs, dirs.forget_clean_shutdown, fail)
    return [item for log_dir, items in found for item in items if not log_dir.failed]


def find_logs(fs: FileSystem, checkpoints: LogCheckpoints, log_dir: LogDir) -> list[FoundLog]:
    """The logs in a folder. Those being deleted, and unfinished copies, are removed. Blocking; raises OSError."""
    recovery_points = checkpoints.read(log_dir, RECOVERY_POINT)
    log_starts = checkpoints.read(log_dir, LOG_START)
    cleaned = checkpoints.read(log_dir, CLEANER)
    high_watermarks = checkpoints.read(log_dir, REPLICATION)
    found = []
    for name in sorted(fs.listdir(log_dir.path)):
        path = f"{log_dir.path}/{name}"
        if name.endswith((log_names.DELETE_SUFFIX, log_names.FUTURE_SUFFIX)) and fs.is_dir(path):
            remove_folder(fs, path)
            continue
        partition = log_names.parse(name)
        if partition is None or partition.topic == "__cluster_metadata" or not fs.is_dir(path):
            if name.endswith(log_names.STRAY_SUFFIX):
                logger.warning(
                    "stray folder ignored", path=path, advice="remove the folder once nobody misses its records"
                )
            continue
        found.append(
            FoundLog(
                partition,
                log_dir,
                recovery_points.get(partition, 0),
                log_starts.get(partition, 0),
                cleaned.get(partition),
                high_watermarks.get(partition, 0),
            )
        )
    return found


def moved_logs(fs: FileSystem, log_dir: LogDir) -> dict[str, TopicPartition]:
    """The folders, by name, of logs whose move a crash interrupted after the copy counted. Blocking; raises OSError."""
    names = {name: log_names.parse_moved(name) for name in sorted(fs.listdir(log_dir.path))}
    return {name: partition for name, partition in names.items() if partition is not None}


def finish_moves(
    fs: FileSystem,
    log_dir: LogDir,
    moved: Mapping[str, TopicPartition],
    others: Sequence[LogDir],
    new_id: Callable[[], UUID],
) -> None:
    """Let what was moved to `log_dir` be the only folder of these partitions. Blocking; raises OSError."""
    for name, partition in moved.items():
        folder = log_names.folder_name(partition)
        for other in (*others, log_dir):  # a deleted topic's may have stayed in `log_dir` for lack of room
            if fs.exists(f"{other.path}/{folder}"):
                fs.rename(f"{other.path}/{folder}", f"{other.path}/{log_names.delete_name(partition, new_id())}")
                fs.fsync_dir(other.path)
        logger.info("finishing an interrupted move", partition=str(partition), path=log_dir.path)
        fs.rename(f"{log_dir.path}/{name}", f"{log_dir.path}/{folder}")
        fs.fsync_dir(log_dir.path)


def run_in_order(jobs: Sequence[Callable[[], T]], threads: int) -> Iterator[T]:
    """The results in order, each as soon as it and those before it are done. A failure ends everything."""
    if threads <= 1 or len(jobs) <= 1:
        for job in jobs:
            yield job()
        return
    with ThreadPoolExecutor(threads, thread_name_prefix="log-recovery") as pool:
        futures = [pool.submit(job) for job in jobs]
        try:
            for future in futures:
                yield future.result()
        finally:
            pool.shutdown(cancel_futures=True)
