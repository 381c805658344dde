"""Finding and opening the logs of one log folder (the loading half of Kafka's LogManager)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TypeVar
from uuid import UUID

import structlog

from storage.append_types import LogConfig
from storage.files import FileSystem
from storage.folders import log_names, partition_metadata
from storage.folders.checkpoints import CLEANER, LOG_START, RECOVERY_POINT, TopicPartition
from storage.folders.folder_removal import remove_folder
from storage.folders.log_checkpoints import LogCheckpoints
from storage.folders.log_dirs import LogDir, LogDirs
from storage.folders.partition_metadata import CorruptPartitionMetadataError
from storage.log.leader_epochs import LeaderEpochs
from storage.log.log_segments import LogSegments
from storage.log.log_services import LogHost, LogServices
from storage.log.partition_log import PartitionLog
from storage.log.recovery import LoadedState, LoadRequest, load
from storage.producers.producer_state import ProducerStateManager
from storage.segments.segment import LogSegment

logger = structlog.get_logger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Found:
    """A folder with a log in it, and what the checkpoints say of that."""

    partition: TopicPartition
    log_dir: LogDir
    recovery_point: int = 0
    log_start_offset: int = 0
    cleaned_to: int | None = None

    @property
    def folder(self) -> str:
        return f"{self.log_dir.path}/{log_names.folder_name(self.partition)}"


def find_all(
    fs: FileSystem,
    checkpoints: LogCheckpoints,
    dirs: LogDirs,
    new_id: Callable[[], UUID],
    fail: Callable[[LogDir, Exception], None],
) -> list[Found]:
    """The logs of every usable folder, which no longer count as cleanly shut down.

    A folder with an I/O error is skipped (`fail`), unless it is the first. Blocking; raises OSError.
    """

    def each(look: Callable[[LogDir], T]) -> list[tuple[LogDir, T]]:
        results = []
        for number, log_dir in enumerate(dirs.dirs):
            if log_dir.failed:
                continue
            try:
                results.append((log_dir, look(log_dir)))
            except OSError as error:
                if number == 0:
                    raise
                fail(log_dir, error)
        return results

    for log_dir, moved in each(partial(moved_logs, fs)):
        others = [one for one in dirs.dirs if one is not log_dir and not one.failed]
        finish_moves(fs, log_dir, moved, others, new_id)
    found = each(partial(find_logs, fs, checkpoints))
    each(dirs.forget_clean_shutdown)
    return [item for log_dir, items in found for item in items if not log_dir.failed]


def find_logs(fs: FileSystem, checkpoints: LogCheckpoints, log_dir: LogDir) -> list[Found]:
    """The logs in a folder; those on their way out, and unfinished copies, are removed. Blocking; raises OSError."""
    recovery_points = checkpoints.read(log_dir, RECOVERY_POINT)
    log_starts = checkpoints.read(log_dir, LOG_START)
    cleaned = checkpoints.read(log_dir, CLEANER)
    found = []
    for name in sorted(fs.listdir(log_dir.path)):
        path = f"{log_dir.path}/{name}"
        if name.endswith((log_names.DELETE_SUFFIX, log_names.FUTURE_SUFFIX)) and fs.is_dir(path):
            remove_folder(fs, path)
            continue
        partition = log_names.parse(name)
        if partition is None or partition.topic == "__cluster_metadata" or not fs.is_dir(path):
            if name.endswith(log_names.STRAY_SUFFIX):
                logger.warning("stray folder ignored", path=path)
            continue
        recovery_point, log_start = recovery_points.get(partition, 0), log_starts.get(partition, 0)
        found.append(Found(partition, log_dir, recovery_point, log_start, cleaned.get(partition)))
    return found


def moved_logs(fs: FileSystem, log_dir: LogDir) -> dict[str, TopicPartition]:
    """The folders of logs that were changing places when a crash came, by name. Blocking; raises OSError."""
    names = {name: log_names.parse_moved(name) for name in sorted(fs.listdir(log_dir.path))}
    return {name: partition for name, partition in names.items() if partition is not None}


def finish_moves(
    fs: FileSystem,
    log_dir: LogDir,
    moved: Mapping[str, TopicPartition],
    others: Sequence[LogDir],
    new_id: Callable[[], UUID],
) -> None:
    """What was moved to `log_dir` counts, and no other folder of these partitions. Blocking; raises OSError."""
    for name, partition in moved.items():
        folder = log_names.folder_name(partition)
        for other in others:
            if fs.exists(f"{other.path}/{folder}"):
                fs.rename(f"{other.path}/{folder}", f"{other.path}/{log_names.delete_name(partition, new_id())}")
                fs.fsync_dir(other.path)
        logger.info("finishing an interrupted move", partition=str(partition), log_dir=log_dir.path)
        fs.rename(f"{log_dir.path}/{name}", f"{log_dir.path}/{folder}")
        fs.fsync_dir(log_dir.path)


def open_log(
    services: LogServices,
    found: Found,
    topic_id: UUID | None,
    config: LogConfig,
    *,
    clean: bool,
    host: LogHost,
    producer_expiration_ms: int,
    folder: str | None = None,
) -> PartitionLog:
    """Open, and recover unless `clean`, a log, in `folder` if that is not the one its name says.

    Blocking; raises OSError.
    """
    folder = folder or found.folder
    name = str(found.partition)
    request = LoadRequest(
        fs=services.fs,
        folder=folder,
        name=name,
        config=config,
        clean=clean,
        recovery_point=found.recovery_point,
        log_start_offset=found.log_start_offset,
        cleaned_to=found.cleaned_to,
        now_ms=services.clock.wall_ms(),
        jitter_ms=partial(services.jitter_ms, config),
        producers=ProducerStateManager(services.fs, folder, name, producer_expiration_ms),
    )
    topic, index = found.partition
    log = PartitionLog(
        services,
        folder,
        topic=topic,
        partition=index,
        topic_id=topic_id,
        config=config,
        state=load(request),
        host=host,
    )
    log.cleaned_to = found.cleaned_to
    return log


def read_topic_id(fs: FileSystem, found: Found, expected: UUID | None) -> UUID | None:
    """The topic id in a log's folder; a damaged file is rewritten with the `expected` one. Raises OSError."""
    try:
        return partition_metadata.read(fs, found.folder)
    except CorruptPartitionMetadataError as error:
        logger.warning("partition.metadata damaged", partition=str(found.partition), error=str(error))
    if expected is not None:
        partition_metadata.write(fs, found.folder, expected)
        fs.fsync_dir(found.folder)
    return expected


def offline_log(
    services: LogServices,
    found: Found,
    topic_id: UUID | None,
    config: LogConfig,
    reason: Exception,
    *,
    state_folder: str,
    host: LogHost,
) -> PartitionLog:
    """A placeholder for a log that cannot be used: it knows what the checkpoints say, and its files are left alone.

    Its state is empty: it is loaded from `state_folder`, which holds no log. Any thread; raises OSError.
    """
    topic, index = found.partition
    log = PartitionLog(
        services,
        found.folder,
        topic=topic,
        partition=index,
        topic_id=topic_id,
        config=config,
        state=LoadedState(
            LogSegments([LogSegment(services.fs, found.folder, 0, config)]),
            ProducerStateManager(services.fs, state_folder, str(found.partition)),
            LeaderEpochs(services.fs, state_folder),
            found.log_start_offset,
            max(found.log_start_offset, found.recovery_point),
        ),
        host=host,
    )
    log.cleaned_to = found.cleaned_to
    log.fail(reason)
    return log


def run_in_order(jobs: Sequence[Callable[[], T]], threads: int) -> Iterator[T]:
    """Results in order, each as soon as it and those before it are done. A failure ends all."""
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
