"""Folders of partitions that no topic has (strays), and the removal of folders.

A stray is recognized by its name and topic id, before anything in it is read, so that it stays as it was (Kafka's
`LogManager.isStrayReplica`, and what it does with them). The folders of deleted logs are removed at once or after
`file.delete.delay.ms`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum, auto
from functools import partial
from uuid import UUID

import structlog

from protocol.topic_partition import TopicPartition
from storage.files import FileSystem, is_transient
from storage.folders import log_names
from storage.log.log_services import DESCRIPTORS_RETRY_MS, LogServices
from storage.segments.segment_files import LOG_SUFFIX

logger = structlog.get_logger(__name__)


def remove_folder(fs: FileSystem, path: str) -> None:
    """Remove a folder and everything in it, but not what a symbolic link in it leads to; blocking. Raises OSError.

    In the order of names: after a crash, what is left has no record any more, or still its `partition.metadata`.
    """
    for name in sorted(fs.listdir(path)):
        below = f"{path}/{name}"
        if fs.is_dir(below) and not fs.is_link(below):
            remove_folder(fs, below)
        else:
            fs.unlink(below)
    fs.rmdir(path)


def remove_folder_later(services: LogServices, folder: str, delay_ms: int, stopped: Callable[[], bool]) -> None:
    """Remove a folder `delay_ms` from now, unless the broker has `stopped` by then; the next start does it then."""

    def failed(error: Exception) -> None:
        logger.error("folder not removed", folder=folder, error=str(error))
        if is_transient(error):
            remove_folder_later(services, folder, delay_ms + DESCRIPTORS_RETRY_MS, stopped)

    def remove() -> None:
        if stopped():  # the workers take nothing more, and the folder may be another broker's
            return
        work = partial(remove_folder, services.fs, folder)
        services.workers.submit(work, lambda _: logger.info("folder removed", folder=folder), failed)

    services.clock.call_later(delay_ms, remove)


_OF_NEW_LOG = re.compile(r"0{20}\.(log|index|timeindex)|(leader-epoch-checkpoint|partition\.metadata)(\.tmp)?")


class FolderState(Enum):
    """Whether a topic has a partition of this name and topic id; DELETED: a deletion of the topic did not get there."""

    HOSTED = auto()
    DELETED = auto()
    STRAY = auto()


FolderStateOf = Callable[[TopicPartition, UUID | None, int], FolderState]
"""Asks for the state of a folder: of its partition, its topic id (None if it tells none), and `LogDir.closed_in`."""


def clear_away(fs: FileSystem, root: str, partition: TopicPartition, state: FolderState, unique: UUID) -> None:
    """Free the name of a folder in `root`: a stray becomes `-stray`, unless it never held a record; others are removed.

    Blocking; raises OSError.
    """
    folder = f"{root}/{log_names.folder_name(partition)}"
    if state is FolderState.STRAY and not is_new(fs, folder):
        aside = f"{root}/{log_names.stray_name(partition, unique)}"
        fs.rename(folder, aside)
        logger.warning(
            "partition without a topic kept as stray",
            partition=str(partition),
            path=aside,
            advice="remove the folder once nobody misses its records",
        )
    else:
        remove_folder(fs, folder)
        logger.warning("partition without a topic removed", partition=str(partition), path=folder)
    fs.fsync_dir(root)


def is_new(fs: FileSystem, folder: str) -> bool:
    """Whether there is nothing but what a crash in the middle of a creation may leave."""
    return all(
        _OF_NEW_LOG.fullmatch(name) and not (name.endswith(LOG_SUFFIX) and fs.size(f"{folder}/{name}"))
        for name in fs.listdir(folder)
    )
