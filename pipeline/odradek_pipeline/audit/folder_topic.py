"""A topic in the data folders of a broker, running, stopped or copied, Odradek's or Apache Kafka's."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence

from odradek_pipeline.audit.log_topic import FoundBatch, Hole, LogTopic
from odradek_pipeline.audit.sides import AuditError, Extent, NotThereError
from odradek_pipeline.datasource.errors import DataSourceError
from odradek_pipeline.datasource.indexes import AbortedBatches
from odradek_pipeline.datasource.log_view import LogState, Planner
from odradek_pipeline.datasource.offsets import OffsetRange
from odradek_pipeline.datasource.options import SourceOptions
from odradek_pipeline.datasource.pieces import Piece, pieces_of
from odradek_pipeline.datasource.places import RemoteFileMissing
from odradek_pipeline.datasource.scan import PieceScan
from odradek_pipeline.protocol.topic_partition import TopicPartition

PIECE_BYTES = 64 << 20
ATTEMPTS = 100


class DamageLog(logging.Handler):
    """Collects what the data source reports while it goes on behind damage."""

    MOST = 100

    def __init__(self, found: list[str]) -> None:
        super().__init__(logging.WARNING)
        self.found = found

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if len(self.found) < self.MOST and text not in self.found:
            self.found.append(text)


class FolderTopic(LogTopic):
    """Reads through damage, and tells of it: an audit is for what is broken."""

    def __init__(self, folders: Sequence[str], topic: str, tier: Mapping[str, str] | None = None) -> None:
        """`tier`: options of the data source that say where older segments are.

        Raises AuditError if no partition of the topic is there.
        """
        super().__init__(topic)
        self.where = ", ".join(folders) or (tier or {})["tier"]
        given = {"topics": topic, "failOnDataLoss": "false", "failOnCorruption": "false", **(tier or {})}
        try:
            self._options = SourceOptions.parse({"paths": json.dumps(list(folders)), **given})
        except DataSourceError as error:
            raise AuditError(str(error)) from error
        self._planner = Planner(self._options)
        source = logging.getLogger("odradek_pipeline.datasource")
        source.addHandler(DamageLog(self._problems))
        source.propagate = False  # told in the report, once
        self.states: Mapping[TopicPartition, LogState] = {}
        if not self.extents():
            raise NotThereError(f"No partition of {topic} is in {self.where}.")

    def extents(self) -> Mapping[int, Extent]:
        """The logs as they are now, which later reads are of. Raises AuditError."""
        try:
            self.states = self._planner.look()
        except (DataSourceError, OSError) as error:
            raise AuditError(str(error)) from error
        return {key.partition: Extent(state.start, state.end) for key, state in self.states.items()}

    def batches(self, partition: int, start: int, end: int) -> Iterator[FoundBatch | Hole]:
        try:
            for piece in self._pieces(partition, start, end):
                aborted = AbortedBatches(piece.aborted)
                scan = PieceScan(piece, self._options)
                for header, batch in scan.batches():
                    yield from _hole(scan, header.base_offset)
                    yield header, batch, header in aborted
                yield from _hole(scan, piece.end)
        except (DataSourceError, OSError) as error:
            raise AuditError(str(error)) from error

    def _pieces(self, partition: int, start: int, end: int) -> list[Piece]:
        """Looks again if a segment is not there any more. Raises OSError, DataSourceError."""
        for _ in range(ATTEMPTS):
            state = self.states.get(TopicPartition(self.name, partition))
            if state is None or max(start, state.start) >= min(end, state.end):
                return []
            try:
                return pieces_of(OffsetRange(state, max(start, state.start), min(end, state.end)), PIECE_BYTES)
            except RemoteFileMissing:
                raise
            except FileNotFoundError:
                self.extents()
        raise AuditError(f"The files of {self.name}-{partition} go faster than they can be opened.")


def _hole(scan: PieceScan, end: int) -> Iterator[Hole]:
    """What the scan has left out before an offset, if anything."""
    first, scan.damaged_from = scan.damaged_from, None
    if first is not None and first < end:
        yield Hole(first, end)
