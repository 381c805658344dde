"""Folders of partitions that no topic has (strays); Kafka's LogManager.isStrayReplica, and what it does with them.

They are told by name and topic id before anything in them is read, so that they stay as they were.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from uuid import UUID

import structlog

from protocol.topic_partition import TopicPartition
from storage.files import FileSystem
from storage.folders import log_names
from storage.folders.folder_removal import remove_folder

logger = structlog.get_logger(__name__)


class Standing(Enum):
    """Whether a topic has a partition of this name and topic id; DELETED: a deletion of the topic did not get there."""

    HOSTED = auto()
    DELETED = auto()
    STRAY = auto()


StandingOf = Callable[[TopicPartition, UUID | None], Standing]
"""Asks for the standing of a folder's partition and topic id; None is a folder that does not tell its topic id."""


def clear_away(fs: FileSystem, root: str, partition: TopicPartition, standing: Standing, unique: UUID) -> None:
    """Free the name of a folder in `root`: a stray with records becomes `-stray`, any other folder is removed.

    One without records is what a crash in the middle of a creation leaves. Blocking; raises OSError.
    """
    folder = f"{root}/{log_names.folder_name(partition)}"
    if standing is Standing.STRAY and _has_records(fs, folder):
        aside = f"{root}/{log_names.stray_name(partition, unique)}"
        fs.rename(folder, aside)
        logger.warning("partition without a topic kept as stray", partition=str(partition), path=aside)
    else:
        remove_folder(fs, folder)
        logger.warning("partition without a topic removed", partition=str(partition), path=folder)
    fs.fsync_dir(root)


def _has_records(fs: FileSystem, folder: str) -> bool:
    """Whether any segment has a byte, be it one that compaction has not put in its place yet."""
    return any(".log" in name and fs.size(f"{folder}/{name}") for name in fs.listdir(folder))
