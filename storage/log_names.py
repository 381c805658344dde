"""Names of partitions' folders (Kafka's LocalLog.parseTopicPartitionName and its like)."""

import re
from uuid import UUID

from storage.checkpoints import TopicPartition

DELETE_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"
FUTURE_SUFFIX = "-future"

_FOLDER = re.compile(r"(?P<topic>[A-Za-z0-9._-]+)-(?P<partition>\d+)")
_LONGEST_NAME = 255


def folder_name(partition: TopicPartition) -> str:
    """`topic-partition`."""
    return f"{partition.topic}-{partition.partition}"


def delete_name(partition: TopicPartition, unique: UUID) -> str:
    """The name of a folder that is to be removed: `topic-partition.<32 hex digits>-delete`, at most 255 characters."""
    end = f"-{partition.partition}.{unique.hex}{DELETE_SUFFIX}"
    return partition.topic[: _LONGEST_NAME - len(end)] + end


def parse(name: str) -> TopicPartition | None:
    """The partition whose folder has that name; None for any other folder, renamed ones too."""
    match = _FOLDER.fullmatch(name)
    return TopicPartition(match["topic"], int(match["partition"])) if match else None
