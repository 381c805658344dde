"""What `__remote_log_metadata` says of remote segments, from the files of the topic in the data folders."""

from __future__ import annotations

import logging
from collections.abc import Callable
from uuid import UUID

from odradek_pipeline.datasource import walk
from odradek_pipeline.datasource.errors import CorruptLogError
from odradek_pipeline.datasource.folders import Home, find_homes, topic_id
from odradek_pipeline.datasource.indexes import start_of
from odradek_pipeline.datasource.places import open_log
from odradek_pipeline.datasource.segments import list_segments
from odradek_pipeline.protocol.primitives import DecodeError
from odradek_pipeline.protocol.records.build import iter_records
from odradek_pipeline.protocol.remote_log_records import decode_remote_log_record
from odradek_pipeline.protocol.remote_storage.segment import TopicIdPartition
from odradek_pipeline.protocol.remote_storage.segments import RemoteSegments, replay
from odradek_pipeline.protocol.topic_partition import TopicPartition

logger = logging.getLogger(__name__)

TOPIC = "__remote_log_metadata"
_ATTEMPTS = 100


class MetadataTopic:
    """Each call of `refresh` reads what is new. The topic is never compacted, and its records are replayed in order."""

    def __init__(self, paths: tuple[str, ...]) -> None:
        self._paths = paths
        self._segments: dict[tuple[UUID, int], RemoteSegments] = {}
        self._next: dict[TopicPartition, int] = {}
        self._ids: dict[TopicPartition, str | None] = {}

    def refresh(self) -> bool:
        """Read on; False if the topic is in none of the folders. Raises DataSourceError or a subclass, OSError."""
        homes = find_homes(self._paths, lambda partition: partition.topic == TOPIC)
        ids = {home.partition: topic_id(home) for home in homes}
        if any(self._ids.get(partition, found) != found for partition, found in ids.items()):
            self._segments.clear()  # it was made anew
            self._next.clear()
        self._ids = ids
        for home in homes:
            self._read(home)
        return bool(homes)

    def of(self, partition: TopicIdPartition) -> RemoteSegments:
        """What is known of a partition."""
        key = partition.topic_id, partition.index
        return self._segments.setdefault(key, RemoteSegments(f"{partition.topic}-{partition.index}"))

    def _read(self, home: Home) -> None:
        for _ in range(_ATTEMPTS):
            try:
                self._read_on(home)
                return
            except FileNotFoundError:
                continue  # retention removed a segment between listing and opening
        raise CorruptLogError(f"The files of {home.folder} go faster than they can be opened.")

    def _read_on(self, home: Home) -> None:
        listing = list_segments(home.folder)
        cursor = self._next.get(home.partition, 0)
        for segment in listing.overlapping(cursor, 1 << 62):
            with open_log(segment.log) as log:
                position = start_of(log, segment, cursor)
                for at, header in walk.checked_headers(log, position, segment.base_offset, 0):
                    position = at + header.size
                    if header.next_offset > cursor and not header.is_control:
                        for record in iter_records(log.read(header.size, at), header):
                            replay_value(record.value or b"", record.offset, self.of)
                    cursor = self._next[home.partition] = max(cursor, header.next_offset)
                if position < log.size and listing.after(segment) is not None:
                    raise CorruptLogError(
                        f"{log.path}: there is no whole batch at {position}. With tierMetadata=listing what is in "
                        "remote storage is found without this topic."
                    )


def replay_value(value: bytes, offset: int, of: Callable[[TopicIdPartition], RemoteSegments]) -> None:
    """Let a record of the topic count; `of` has the segments of a partition."""
    try:
        replay(decode_remote_log_record(value), of)
    except (DecodeError, ValueError) as error:
        logger.warning("record %d of %s left out: %s", offset, TOPIC, error)
