"""Opening the metadata log's files once they are known to be good."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from controller.quorum.metadata_batches import MAX_BATCH_BYTES, DamagedError
from controller.quorum.survey import FOLDER_NAME, TOPIC_ID, Survey
from protocol.errors import KafkaError
from storage.append_types import LogConfig
from storage.folders import partition_metadata
from storage.log.log_services import LogServices
from storage.log.recovery import LoadedState, LoadRequest, load
from storage.log.unified_log import UnifiedLog
from storage.producers.producer_state import ProducerStateManager
from storage.segments.index import CorruptIndexError

TOPIC = "__cluster_metadata"


@dataclass(frozen=True, slots=True)
class MetadataLogConfig:
    """Kafka's settings `metadata.log.*` of the same names, with their defaults, and one of ours; bytes and ms."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3600 * 1000
    max_record_bytes_between_snapshots: int = 20 << 20
    min_record_bytes_between_snapshots: int = 1 << 20

    def bytes_between_snapshots(self, snapshot_bytes: int) -> int:
        """How many bytes of records to write before the next snapshot, if the last one has `snapshot_bytes`.

        A start reads the snapshot and those records, so a small snapshot is written more often than Kafka's is.
        """
        wanted = max(self.min_record_bytes_between_snapshots, 2 * snapshot_bytes)
        return min(wanted, self.max_record_bytes_between_snapshots)

    @property
    def log_config(self) -> LogConfig:
        return LogConfig(
            segment_bytes=self.segment_bytes,
            segment_ms=self.segment_ms,
            max_message_bytes=MAX_BATCH_BYTES,
            delete=False,
            retention_ms=-1,
        )


class _Host:
    """No checkpoint has this log: opening it reads the segments themselves."""

    def checkpoint(self) -> None:
        pass

    def failed(self, error: Exception) -> None:
        pass


def open_partition_log(
    services: LogServices, root: str, survey: Survey, config: LogConfig, *, clean: bool
) -> UnifiedLog:
    """Open the log in `root`, a folder of `log.dirs`, and cut off what a power failure may have torn. Blocking.

    A log that was closed cleanly needs no recovery, and with it no room. Raises DamagedError, OSError.
    """
    folder = f"{root}/{FOLDER_NAME}"
    _prepare_folder(services, root, folder, survey)
    try:
        state = _load(services, folder, config, survey, clean=clean and not survey.is_torn)
        if clean and state.log_end_offset != survey.end_offset:  # then an index is wrong
            state = _load(services, folder, config, survey, clean=False)
    except (KafkaError, CorruptIndexError) as error:
        raise DamagedError(f"{folder}: {error}") from error
    if state.log_end_offset != survey.end_offset:
        raise DamagedError(f"{folder} ends at offset {state.log_end_offset}, but was read up to {survey.end_offset}.")
    return UnifiedLog(
        services, folder, topic=TOPIC, partition=0, topic_id=TOPIC_ID, config=config, state=state, host=_Host()
    )


def _prepare_folder(services: LogServices, root: str, folder: str, survey: Survey) -> None:
    """Make the folder, so that it survives a power failure, or clear it of unfinished snapshots."""
    fs = services.fs
    if not fs.is_dir(folder):
        fs.mkdir(folder)
    fs.fsync_dir(root)
    if not fs.exists(f"{folder}/{partition_metadata.FILE_NAME}"):
        partition_metadata.write(fs, folder, TOPIC_ID)
    for name in survey.leftovers:
        fs.unlink(f"{folder}/{name}")


def _load(services: LogServices, folder: str, config: LogConfig, survey: Survey, *, clean: bool) -> LoadedState:
    """Open the segments: the last one is recovered, unless it is `clean`; the others were read already.

    A log that ends before its snapshot does, as after a restored backup, begins anew where the snapshot ends.
    """
    begins_anew = not survey.segments or survey.covers_log
    return load(
        LoadRequest(
            fs=services.fs,
            folder=folder,
            name=FOLDER_NAME,
            config=config,
            clean=clean,
            recovery_point=survey.segments[-1] if survey.segments else 0,
            log_start_offset=survey.start_offset if begins_anew else 0,
            cleaned_to=None,
            now_ms=services.clock.wall_ms(),
            jitter_ms=partial(services.jitter_ms, config),
            producers=ProducerStateManager(services.fs, folder, FOLDER_NAME),
        )
    )
