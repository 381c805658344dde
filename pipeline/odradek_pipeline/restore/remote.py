"""What is in remote storage of the partitions that are restored.

`__remote_log_metadata` says so, if it is in the folders; of a partition that it does not know, and of all of them if it
is damaged, the store itself is listed. A listing finds also what was half copied, and logs whose other files are lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from odradek_pipeline.audit.sides import AuditError
from odradek_pipeline.datasource.errors import DataSourceError
from odradek_pipeline.datasource.options import SourceOptions, TierMetadata
from odradek_pipeline.datasource.tier_metadata import TOPIC, replay_value
from odradek_pipeline.datasource.tier_view import ByPartition, segments_of
from odradek_pipeline.datasource.tiers import Tier, Wants
from odradek_pipeline.protocol import uuids
from odradek_pipeline.protocol.records.build import iter_records
from odradek_pipeline.protocol.remote_storage.segment import RemoteSegment, State
from odradek_pipeline.protocol.topic_partition import TopicPartition
from odradek_pipeline.restore.merged import MergedLog, RemotePart


class Remote:
    """What is known, with the `tier` where it can be read; None if nobody has said where that is."""

    def __init__(self, options: Mapping[str, str] | None) -> None:
        """`options` are those of the data source. Raises AuditError if the tier cannot be read."""
        self.tier: Tier | None = None
        self.mode = TierMetadata.AUTO
        self._known: ByPartition = {}
        if options is not None:
            try:
                parsed = SourceOptions.parse(options)
                assert parsed.tier is not None, "the command gives it"
                self.tier, self.mode = parsed.tier, parsed.tier_metadata
                self.tier.check()
            except (DataSourceError, OSError) as error:
                raise AuditError(str(error)) from error

    def find(self, metadata: Iterable[MergedLog], wants: Wants) -> None:
        """Learn from the logs of `__remote_log_metadata`, and from a listing. Raises AuditError."""
        logs = [] if self.mode is TierMetadata.LISTING else list(metadata)
        if self.mode is TierMetadata.TOPIC and not logs:
            raise AuditError(f"{TOPIC} is in no folder: with tierMetadata=listing the tier itself is listed.")
        for log in logs:
            self._replay(log)
        if self.tier is not None and self.mode is not TierMetadata.TOPIC:
            damaged = any(log.story.lost.count for log in logs)
            known = set() if damaged else {partition for partition in self._known if self.ids(partition)}
            self._list(self.tier, lambda topic, index: (topic, index) not in known and wants(topic, index))

    def _replay(self, log: MergedLog) -> None:
        for batch in log.batches():
            if batch.header.is_control:
                continue
            try:
                for record in iter_records(batch.read(), batch.header):
                    replay_value(record.value or b"", record.offset, lambda named: segments_of(self._known, named))
            except ValueError as error:
                raise AuditError(f"{log.partition} at offset {batch.header.base_offset}: {error}") from error

    def _list(self, tier: Tier, wants: Callable[[str, int], bool]) -> None:
        try:
            for segment in tier.listed(wants, salvage=True):
                segments = segments_of(self._known, segment.partition)
                if segments.get(segment.id) is None:
                    segments.take(replace(segment, state=State.COPY_STARTED))
                    segments.take(segment)
        except (DataSourceError, OSError) as error:
            raise AuditError(str(error)) from error

    def partitions(self) -> list[TopicPartition]:
        """Those that something can be read of."""
        return [partition for partition in self._known if self.ids(partition)]

    def ids(self, partition: TopicPartition) -> list[str]:
        """The ids of the topics of that name that something can be read of."""
        of_ids = self._known.get(partition, {})
        return [uuids.to_text(found) for found, segments in of_ids.items() if any(map(_is_there, segments))]

    def part(self, partition: TopicPartition, topic_id: str, *, stays: bool) -> RemotePart | None:
        """What there is of a partition, if there is anything."""
        segments = self._known.get(partition, {}).get(uuids.from_text(topic_id))
        if segments is None or not any(map(_is_there, segments)):
            return None
        return RemotePart(topic_id, tuple(segments), self.tier, stays)


def _is_there(segment: RemoteSegment) -> bool:
    """Whether the segment can be read; of one that was only found by its name nobody knows that it cannot."""
    return segment.state is State.COPY_FINISHED or (segment.state is State.COPY_STARTED and segment.broker_id < 0)
