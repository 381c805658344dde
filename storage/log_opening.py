"""Finding and opening the logs of one log folder (the loading half of Kafka's LogManager)."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TypeVar
from uuid import UUID

import structlog

from storage import log_names
from storage.append_types import LogConfig
from storage.checkpoints import CLEANER, LOG_START, RECOVERY_POINT, TopicPartition
from storage.files import FileSystem
from storage.leader_epochs import LeaderEpochs
from storage.log_checkpoints import LogCheckpoints
from storage.log_dirs import LogDir
from storage.log_segments import LogSegments
from storage.log_services import LogHost, LogServices
from storage.partition_log import PartitionLog
from storage.producer_state import ProducerStateManager
from storage.recovery import LoadedState, LoadRequest, load
from storage.segment import LogSegment

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


def find_logs(fs: FileSystem, checkpoints: LogCheckpoints, log_dir: LogDir) -> list[Found]:
    """The logs in a folder; those on their way out are removed. Blocking; raises OSError."""
    recovery_points = checkpoints.read(log_dir, RECOVERY_POINT)
    log_starts = checkpoints.read(log_dir, LOG_START)
    cleaned = checkpoints.read(log_dir, CLEANER)
    found = []
    for name in sorted(fs.listdir(log_dir.path)):
        path = f"{log_dir.path}/{name}"
        if name.endswith(log_names.DELETE_SUFFIX) and fs.is_dir(path):
            remove_folder(fs, path)
            continue
        partition = log_names.parse(name)
        if partition is None or partition.topic == "__cluster_metadata" or not fs.is_dir(path):
            if name.endswith((log_names.STRAY_SUFFIX, log_names.FUTURE_SUFFIX)):
                logger.warning("ignoring a folder", path=path)
            continue
        recovery_point, log_start = recovery_points.get(partition, 0), log_starts.get(partition, 0)
        found.append(Found(partition, log_dir, recovery_point, log_start, cleaned.get(partition)))
    return found


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


def absent_log(
    services: LogServices, found: Found, topic_id: UUID, config: LogConfig, *, usable: LogDir, host: LogHost
) -> PartitionLog:
    """What stands for a log whose folder cannot be used: offline, and never on any disk.

    Its state is looked for where there is none, in the `usable` folder itself. Raises OSError.
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
            ProducerStateManager(services.fs, usable.path, str(found.partition)),
            LeaderEpochs(services.fs, usable.path),
            0,
            0,
        ),
        host=host,
    )
    log.fail(OSError("its log directory cannot be used"))
    return log


def remove_folder(fs: FileSystem, path: str) -> None:
    """Remove a folder of files. Raises OSError."""
    for name in fs.listdir(path):
        fs.unlink(f"{path}/{name}")
    fs.rmdir(path)


def run_in_order(jobs: Sequence[Callable[[], T]], threads: int) -> Iterator[T]:
    """Results in order, each as soon as it and those before it are there. One that fails ends it all."""
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
