"""Repairing a damaged log: recovery as after a crash, over the whole log, without throwing anything away."""

from __future__ import annotations

import os

from storage.append_types import LogConfig
from storage.checkpoint_file import CorruptCheckpointError
from storage.files import FileSystem
from storage.folders import log_names
from storage.folders.checkpoints import LOG_START, OffsetCheckpoint
from storage.log.leader_epochs import FILE_NAME, LeaderEpochs
from storage.log.recovery import LoadRequest, load
from storage.producers.producer_state import ProducerStateManager
from storage.tools.verification import CHECKPOINTS

# Gaps between segments are no damage: compaction leaves them, and whether it ran is not known here.
_ALL_CLEANED = 2**63 - 1


def repair_data_folder(fs: FileSystem, path: str) -> None:
    """Remove unreadable checkpoints; the next start does not need them. Raises OSError."""
    for name in CHECKPOINTS:
        try:
            OffsetCheckpoint(fs, path, name).read()
        except CorruptCheckpointError:
            fs.unlink(f"{path}/{name}")
    fs.fsync_dir(path)


def repair_partition(fs: FileSystem, folder: str, now_ms: int) -> int:
    """Cut the log at its first bad batch, and rebuild its indexes, snapshots and epochs. Returns its new end offset.

    Raises OSError.
    """
    folder = os.path.abspath(folder)  # the data folder is the one above
    data_folder, _, name = folder.rpartition("/")
    partition = log_names.parse(name)
    assert partition is not None
    try:
        LeaderEpochs(fs, folder)
    except ValueError:
        fs.unlink(f"{folder}/{FILE_NAME}")
    try:
        log_start = OffsetCheckpoint(fs, data_folder, LOG_START).read().get(partition, 0)
    except CorruptCheckpointError:
        log_start = 0
    request = LoadRequest(
        fs=fs,
        folder=folder,
        name=name,
        config=LogConfig(),
        clean=False,
        recovery_point=0,
        log_start_offset=log_start,
        cleaned_to=_ALL_CLEANED,
        now_ms=now_ms,
        jitter_ms=lambda: 0,
        producers=ProducerStateManager(fs, folder, name),
    )
    return load(request).log_end_offset
