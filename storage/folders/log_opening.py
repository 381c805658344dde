"""Opening one log: its files, and what the checkpoints say of it (Kafka's LogManager.loadLog)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import cast
from uuid import UUID

from protocol.topic_partition import TopicPartition
from storage import damage
from storage.append_types import LogConfig
from storage.files import FileSystem
from storage.folders import log_names, partition_metadata
from storage.folders.log_dirs import LogDir
from storage.folders.partition_metadata import CorruptPartitionMetadataError
from storage.log.leader_epochs import LeaderEpochs
from storage.log.log_segments import LogSegments
from storage.log.log_services import LogHost, LogServices
from storage.log.recovery import LoadedState, LoadRequest, load
from storage.log.unified_log import UnifiedLog
from storage.producers.producer_state import ProducerStateManager
from storage.segments.segment import LogSegment


@dataclass(frozen=True, slots=True)
class FoundLog:
    """A folder with a log in it, what the checkpoints say of that log, and its topic id once that has been read."""

    partition: TopicPartition
    log_dir: LogDir
    recovery_point: int = 0
    log_start_offset: int = 0
    cleaned_to: int | None = None
    high_watermark: int = 0
    topic_id: UUID | None = None

    @property
    def folder(self) -> str:
        return f"{self.log_dir.path}/{log_names.folder_name(self.partition)}"


def open_log(
    services: LogServices,
    found: FoundLog,
    topic_id: UUID | None,
    config: LogConfig,
    *,
    clean: bool,
    host: LogHost,
    producer_expiration_ms: int,
    note_recovered: Callable[[int], None],
) -> UnifiedLog:
    """Open a log, and recover it unless `clean`; see `LoadRequest`. Blocking; raises OSError."""
    folder = found.folder
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
        note_recovered=note_recovered,
    )
    topic, index = found.partition
    log = UnifiedLog(
        services,
        folder,
        topic=topic,
        partition=index,
        topic_id=topic_id,
        config=config,
        state=load(request),
        host=host,
    )
    log.cleaned_to, log.high_watermark = found.cleaned_to, found.high_watermark
    return log


def read_topic_id(fs: FileSystem, found: FoundLog, expected: UUID | None) -> UUID | None:
    """The topic id in a log's folder; a damaged file is rewritten with the `expected` id. Raises OSError."""
    try:
        return partition_metadata.read(fs, found.folder)
    except CorruptPartitionMetadataError as error:
        damage.repaired(f"{found.folder}/{partition_metadata.FILE_NAME}", error, "written again with the topic's id")
    if expected is not None:
        partition_metadata.write(fs, found.folder, expected)
        fs.fsync_dir(found.folder)
    return expected


class _NoFiles:
    """The file system of state that is empty, and of which nothing is ever written."""

    def exists(self, _path: str) -> bool:
        return False

    def listdir(self, _path: str) -> list[str]:
        return []


def offline_log(
    services: LogServices,
    found: FoundLog,
    topic_id: UUID | None,
    config: LogConfig,
    reason: Exception,
    host: LogHost,
) -> UnifiedLog:
    """A placeholder for a log that cannot be used: it has the offsets of the checkpoints, and leaves the files alone.

    Any thread.
    """
    topic, index = found.partition
    no_files = cast("FileSystem", _NoFiles())
    log = UnifiedLog(
        services,
        found.folder,
        topic=topic,
        partition=index,
        topic_id=topic_id,
        config=config,
        state=LoadedState(
            LogSegments([LogSegment(services.fs, found.folder, 0, config)]),
            ProducerStateManager(no_files, found.folder, str(found.partition)),
            LeaderEpochs(no_files, found.folder),
            found.log_start_offset,
            max(found.log_start_offset, found.recovery_point),
        ),
        host=host,
    )
    log.cleaned_to, log.high_watermark = found.cleaned_to, found.high_watermark
    log.fail(reason)
    return log
