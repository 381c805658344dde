"""Names of partitions' folders (Kafka's LocalLog.parseTopicPartitionName and its like)."""

from __future__ import annotations

import re
from uuid import UUID

from protocol.topic_partition import TopicPartition

DELETE_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"
FUTURE_SUFFIX = "-future"
MOVED_SUFFIX = "-moved"

_FOLDER = re.compile(r"(?P<topic>[A-Za-z0-9._-]+)-(?P<partition>\d+)")
RESERVED = frozenset({".", "..", "__cluster_metadata"})
"""What no topic of a broker is called; the folder of the last one has the metadata."""
LONGEST_NAME = 255
"""The longest name, in characters, that file systems allow for a folder."""


def folder_name(partition: TopicPartition) -> str:
    """`topic-partition`."""
    return str(partition)


def is_valid(partition: TopicPartition) -> bool:
    """Whether a folder may be called after the partition: never one outside of `log.dirs`, or of something else."""
    name = folder_name(partition)
    return parse(name) == partition and len(name) <= LONGEST_NAME and partition.topic not in RESERVED


def delete_name(partition: TopicPartition, unique: UUID) -> str:
    """The name of a folder to be deleted: `topic-partition.<32 hex digits>-delete`, at most 255 characters."""
    return _capped_name(partition, unique, DELETE_SUFFIX)


def stray_name(partition: TopicPartition, unique: UUID) -> str:
    """The name of a folder that no topic has: `topic-partition.<32 hex digits>-stray`, at most 255 characters."""
    return _capped_name(partition, unique, STRAY_SUFFIX)


def _capped_name(partition: TopicPartition, unique: UUID, suffix: str) -> str:
    end = f"-{partition.partition}.{unique.hex}{suffix}"
    return partition.topic[: LONGEST_NAME - len(end)] + end


def future_name(partition: TopicPartition, unique: UUID) -> str:
    """The name of an unfinished copy: `topic-partition.<32 hex digits>-future`."""
    return f"{folder_name(partition)}.{unique.hex}{FUTURE_SUFFIX}"


def moved_name(partition: TopicPartition, unique: UUID) -> str:
    """The name of a complete copy, which replaces any other folder of the partition."""
    return f"{folder_name(partition)}.{unique.hex}{MOVED_SUFFIX}"


def parse_moved(name: str) -> TopicPartition | None:
    """The partition of a `moved_name`; None for any other name."""
    stem, dot, _ = name.rpartition(".")
    return parse(stem) if dot and name.endswith(MOVED_SUFFIX) else None


def parse(name: str) -> TopicPartition | None:
    """The partition whose folder has that name; None for other folders, including renamed ones."""
    match = _FOLDER.fullmatch(name)
    return TopicPartition(match["topic"], int(match["partition"])) if match else None
