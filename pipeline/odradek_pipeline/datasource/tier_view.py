"""A log whose older segments are in remote storage, as one list of segments.

How it works: below the first local segment the log is in remote storage. What is there, `__remote_log_metadata` says
(if it is in the data folders), or else a listing of the store. Of that, those segments belong to the log that have its
leader epochs; from the log's start on, the segment that has the next offset is taken, as a broker does. Where two
leaders have copied the same offsets, readers go by their own position, so no record comes twice.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from odradek_pipeline.datasource.errors import DataLossError, DataSourceError
from odradek_pipeline.datasource.indexes import decode_open_transactions
from odradek_pipeline.datasource.options import SourceOptions, TierMetadata
from odradek_pipeline.datasource.places import RemoteFileMissing
from odradek_pipeline.datasource.segments import Listing
from odradek_pipeline.datasource.tier_metadata import TOPIC, MetadataTopic
from odradek_pipeline.datasource.tiers import Tier, decode_epochs
from odradek_pipeline.protocol import uuids
from odradek_pipeline.protocol.remote_storage.segment import RemoteSegment, State, TopicIdPartition
from odradek_pipeline.protocol.remote_storage.segments import RemoteSegments
from odradek_pipeline.protocol.remote_storage.store import IndexKind
from odradek_pipeline.protocol.topic_partition import EpochEntry, TopicPartition

logger = logging.getLogger(__name__)

EPOCHS = "leader-epoch-checkpoint"


ByPartition = dict[TopicPartition, dict[UUID, RemoteSegments]]
"""What is in remote storage, by partition and its topic's id."""


def segments_of(known: ByPartition, named: TopicIdPartition) -> RemoteSegments:
    """What is known of a partition."""
    of_ids = known.setdefault(TopicPartition(named.topic, named.index), {})
    return of_ids.setdefault(named.topic_id, RemoteSegments(f"{named.topic}-{named.index}"))


def newest_of(segments: Iterable[RemoteSegment]) -> RemoteSegment | None:
    """Of the segments whose copy is finished, that of the latest leader epoch, and among these the last one."""
    finished = [one for one in segments if one.state is State.COPY_FINISHED and one.epochs]
    return max(finished, key=lambda one: (one.epochs[-1].epoch, one.end_offset), default=None)


@dataclass(frozen=True, slots=True)
class Lineage:
    """The leader epochs of a log, ascending."""

    entries: Sequence[EpochEntry]

    @classmethod
    def of_folder(cls, folder: str) -> Lineage:
        """What the checkpoint in a log's folder says; empty if there is none. Raises DataSourceError, OSError."""
        try:
            with open(f"{folder}/{EPOCHS}", "rb") as file:
                return cls(decode_epochs(file.read()))
        except FileNotFoundError:
            return cls(())

    def epoch_for(self, offset: int) -> int:
        """The epoch of an offset; -1 below the first."""
        place = bisect_right(self.entries, offset, key=lambda entry: entry.start_offset) - 1
        return self.entries[place].epoch if place >= 0 else -1

    @property
    def last(self) -> int:
        return self.entries[-1].epoch if self.entries else -1


class TierView:
    """Looks at a tier repeatedly."""

    def __init__(self, options: SourceOptions, tier: Tier) -> None:
        self._options = options
        self._tier = tier
        self._topic = MetadataTopic(options.paths)
        self._by_topic = False
        self._partitions: frozenset[TopicPartition] | None = None
        self._listed: ByPartition = {}

    def refresh(self, partitions: frozenset[TopicPartition] | None) -> None:
        """Find out what is in remote storage now of these partitions; None: of those that the options want.

        Raises DataSourceError or a subclass, OSError.
        """
        self._partitions = partitions
        mode = self._options.tier_metadata
        self._by_topic = mode is not TierMetadata.LISTING and self._topic.refresh()
        if self._by_topic:
            return
        if mode is TierMetadata.TOPIC:
            raise DataSourceError(
                f"{TOPIC} is not in {', '.join(self._options.paths) or 'any folder'}: with tierMetadata=listing the "
                "tier itself is listed."
            )
        self._listed = {}
        found = sorted(self._tier.listed(self._wants), key=lambda one: (one.end_offset, one.event_timestamp))
        for segment in found:
            segments = segments_of(self._listed, segment.partition)
            segments.take(replace(segment, state=State.COPY_STARTED))
            segments.take(segment)

    def _wants(self, topic: str, index: int) -> bool:
        if self._partitions is None:
            return self._options.wants(topic, index)
        return TopicPartition(topic, index) in self._partitions

    def alone(self) -> dict[TopicPartition, str]:
        """The partitions that a listing has found, with the ids of their topics. Raises DataSourceError."""
        found = {}
        for partition, of_ids in sorted(self._listed.items()):
            if len(of_ids) > 1:
                ids = ", ".join(map(uuids.to_text, of_ids))
                raise DataSourceError(f"{partition} is in the tier more than once, for topics with the ids {ids}.")
            found[partition] = uuids.to_text(next(iter(of_ids)))
        return found

    def joined(self, partition: TopicPartition, topic_id: str | None, local: Listing, log_start: int | None) -> Listing:
        """The local segments, behind those of remote storage from the log's start on.

        `log_start` is None if nothing says where it is: then it is the first record that is there. A start that is a
        little too low is no loss, as Kafka writes it down once a minute.
        Raises DataLossError if segments are missing, DataSourceError, OSError.
        """
        start = log_start or 0
        end = local.segments[0].base_offset if local.segments else None
        if end is not None and start >= end:
            return local
        chain, holes = self._find(partition, topic_id, local, start, end)
        if holes:  # segments may have gone there between the look at the tier and that at the folder
            self.refresh(self._partitions)
            chain, holes = self._find(partition, topic_id, local, start, end)
        if log_start is None and not chain:
            holes = []
        for hole in holes:
            self._lost(partition, *hole)
        return replace(local, segments=(*map(self._tier.files, chain), *local.segments))

    def _find(
        self, partition: TopicPartition, topic_id: str | None, local: Listing, start: int, end: int | None
    ) -> tuple[list[RemoteSegment], list[tuple[int, int]]]:
        """The segments of a log from `start` on, one behind another, up to `end` if there is one; what is missing."""
        remote = self._remote(partition, topic_id)
        chain: list[RemoteSegment] = []
        holes: list[tuple[int, int]] = []
        cursor = start
        for segment in [] if remote is None else self._readable(local, remote, start):
            if segment.end_offset < cursor or (end is not None and segment.start_offset >= end):
                continue
            if segment.start_offset > cursor and chain:
                holes.append((cursor, segment.start_offset))
            chain.append(segment)
            cursor = segment.end_offset + 1
        if end is not None and cursor < end:
            holes.append((cursor, end))
        return chain, holes

    def _readable(self, local: Listing, remote: RemoteSegments, start: int) -> list[RemoteSegment]:
        lineage = self._lineage(local, remote)
        found = [one for one in remote.readable(range(lineage.last + 1)) if one.belongs(lineage.epoch_for, start)]
        return sorted(found, key=lambda one: one.start_offset)

    def _remote(self, partition: TopicPartition, topic_id: str | None) -> RemoteSegments | None:
        if topic_id is None:
            return None
        named = uuids.from_text(topic_id)
        if self._by_topic:
            return self._topic.of(TopicIdPartition(partition.topic, named, partition.partition))
        return self._listed.get(partition, {}).get(named)

    def _lineage(self, local: Listing, remote: RemoteSegments) -> Lineage:
        """The log's own leader epochs; those of the newest remote segment where the log has none that are as new."""
        own, newest = Lineage.of_folder(local.folder), newest_of(remote)
        if newest is None or own.last >= newest.epochs[-1].epoch:
            return own
        return Lineage(decode_epochs(self._index(newest, IndexKind.LEADER_EPOCH)))

    def _index(self, segment: RemoteSegment, kind: IndexKind) -> bytes:
        try:
            return self._tier.index(segment, kind)
        except RemoteFileMissing as error:
            raise DataSourceError(f"{error.filename} is missing in remote storage.") from error

    def _lost(self, partition: TopicPartition, start: int, end: int) -> None:
        text = f"Offsets {start} to {end - 1} of {partition} are neither in a data folder nor in {self._tier}."
        if self._options.fail_on_data_loss:
            raise DataLossError(f"{text} With failOnDataLoss=false they are left out.")
        logger.warning("records are gone: %s", text)

    def open_transactions(self, last: RemoteSegment) -> dict[int, int]:
        """Producers with a transaction that is open behind a segment, and where it began. Raises DataSourceError."""
        known = decode_open_transactions(self._index(last, IndexKind.PRODUCER_SNAPSHOT))
        if known is None:
            raise DataSourceError(f"The producer snapshot of {self._tier.files(last).log} cannot be read.")
        return known
