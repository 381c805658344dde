"""The layout of Kafka's `LocalTieredStorage`: a file for the log of a segment and for each of its indexes.

    DIR/kafka-tiered-storage/TOPIC-PARTITION-TOPICID/00000000000000000042-SEGMENTID.log

and beside it `.index`, `.timeindex`, `.snapshot`, `.leader_epoch_checkpoint`, and `.txnindex` where there are entries.
"""

from __future__ import annotations

import re
from uuid import UUID

from .. import uuids
from .segment import RemoteSegment, TopicIdPartition
from .store import IndexKind

ROOT = "kafka-tiered-storage"
LOG_SUFFIX = ".log"
SUFFIXES = {
    IndexKind.OFFSET: ".index",
    IndexKind.TIMESTAMP: ".timeindex",
    IndexKind.PRODUCER_SNAPSHOT: ".snapshot",
    IndexKind.LEADER_EPOCH: ".leader_epoch_checkpoint",
    IndexKind.TRANSACTION: ".txnindex",
}
_PARTITION = re.compile(r"(.+)-(\d+)-([A-Za-z0-9_-]{22})")
_SEGMENT = re.compile(r"(\d{20})-([A-Za-z0-9_-]{22})(\.[a-z_]+)")


def folder_of(partition: TopicIdPartition) -> str:
    """The name of a partition's folder."""
    return f"{partition.topic}-{partition.index}-{uuids.to_text(partition.topic_id)}"


def file_of(segment: RemoteSegment, suffix: str) -> str:
    """The name of a segment's file in the folder of its partition."""
    return f"{segment.start_offset:020d}-{uuids.to_text(segment.id)}{suffix}"


def parse_folder(name: str) -> TopicIdPartition | None:
    """The partition whose folder has that name."""
    found = _PARTITION.fullmatch(name)
    return TopicIdPartition(found[1], uuids.from_text(found[3]), int(found[2])) if found else None


def parse_file(name: str) -> tuple[int, UUID, str] | None:
    """(first offset, segment, suffix) of a segment's file."""
    found = _SEGMENT.fullmatch(name)
    return (int(found[1]), uuids.from_text(found[2]), found[3]) if found else None
