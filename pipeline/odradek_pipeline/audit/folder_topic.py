"""A topic in the data folders of a broker, running, stopped or copied, Odradek's or Apache Kafka's."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from odradek_pipeline.audit.prints import Longs
from odradek_pipeline.audit.sides import AuditError, Extent, Part
from odradek_pipeline.datasource.columns import COLUMNS
from odradek_pipeline.datasource.decode import Chunk, ChunkPlace, decode
from odradek_pipeline.datasource.errors import DataSourceError
from odradek_pipeline.datasource.indexes import AbortedBatches
from odradek_pipeline.datasource.log_view import LogState, Planner
from odradek_pipeline.datasource.offsets import OffsetRange
from odradek_pipeline.datasource.options import SourceOptions
from odradek_pipeline.datasource.pieces import Piece, pieces_of
from odradek_pipeline.datasource.scan import PieceScan
from odradek_pipeline.protocol.records.batch import HEADER_SIZE, BatchHeader
from odradek_pipeline.protocol.records.compression import Compression, decompress
from odradek_pipeline.protocol.topic_partition import TopicPartition

PIECE_BYTES = 64 << 20
CHUNK_BYTES = 4 << 20
MOST_BATCHES = 10_000
ATTEMPTS = 100


class DamageLog(logging.Handler):
    """Collects what the data source reports while it goes on behind damage."""

    MOST = 100

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if len(self.found) < self.MOST and text not in self.found:
            self.found.append(text)


class FolderTopic:
    """Reads through damage, and tells of it: an audit is for what is broken."""

    def __init__(self, folders: Sequence[str], topic: str) -> None:
        """Raises AuditError if no partition of the topic is there."""
        self.name = topic
        self.where = ", ".join(folders)
        self._options = SourceOptions(
            tuple(folders), topics=frozenset((topic,)), fail_on_data_loss=False, fail_on_corruption=False
        )
        self._planner = Planner(self._options)
        self._damage = DamageLog()
        source = logging.getLogger("odradek_pipeline.datasource")
        source.addHandler(self._damage)
        source.propagate = False  # told in the report, once
        self.states: Mapping[TopicPartition, LogState] = {}
        if not self.extents():
            raise AuditError(f"No partition of {topic} is in {self.where}.")

    def extents(self) -> Mapping[int, Extent]:
        """The logs as they are now, which later reads are of. Raises AuditError."""
        try:
            self.states = self._planner.look()
        except (DataSourceError, OSError) as error:
            raise AuditError(str(error)) from error
        return {key.partition: Extent(state.start, state.end) for key, state in self.states.items()}

    def damage(self) -> list[str]:
        return self._damage.found

    def batches(self, partition: int, start: int, end: int) -> Iterator[tuple[BatchHeader, memoryview, bool]]:
        """(header, bytes, whether aborted) of the batches with offsets in [start, end), markers among them."""
        try:
            for piece in self._pieces(partition, start, end):
                aborted = AbortedBatches(piece.aborted)
                for header, batch in PieceScan(piece, self._options).batches():
                    yield header, batch, header in aborted
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
            except FileNotFoundError:
                self.extents()
        raise AuditError(f"The files of {self.name}-{partition} go faster than they can be opened.")

    def read(self, partition: int, start: int, end: int, columns: Sequence[str]) -> Iterator[Part]:
        names = ("offset", *columns)
        place = ChunkPlace(self.name, partition, start, end)
        aborted: list[tuple[int, int]] = []
        markers: list[tuple[int, int]] = []
        chunk = Chunk()
        for header, batch, is_aborted in self.batches(partition, start, end):
            if header.is_control or is_aborted:
                (markers if header.is_control else aborted).append((header.base_offset, header.next_offset))
            elif header.record_count:
                section = self._section(header, batch, place)
                if section is not None:
                    chunk.add(header, section)
            if chunk.size >= CHUNK_BYTES or len(aborted) + len(markers) >= MOST_BATCHES:
                yield self._part(chunk, place, names, aborted, markers)
                chunk, aborted, markers = Chunk(), [], []
        yield self._part(chunk, place, names, aborted, markers)

    def _section(self, header: BatchHeader, batch: memoryview, place: ChunkPlace) -> bytes | memoryview | None:
        """The records of a batch, decompressed; None if they cannot be read, which is noted."""
        if not header.compression:
            section: bytes | memoryview = batch[HEADER_SIZE:]
        else:
            try:
                section = decompress(Compression(header.compression), batch[HEADER_SIZE:])
            except ValueError as error:
                self._note(header, place, error)
                return None
        return section

    def _note(self, header: BatchHeader, place: ChunkPlace, error: Exception) -> None:
        where = f"{place.topic}-{place.partition}"
        self._damage.found.append(f"{where}: the batch at offset {header.base_offset} cannot be read: {error}")

    def _part(
        self,
        chunk: Chunk,
        place: ChunkPlace,
        names: Sequence[str],
        aborted: list[tuple[int, int]],
        markers: list[tuple[int, int]],
    ) -> Part:
        if not chunk.headers:
            records = _no_records(names)
        else:
            try:
                records = decode(chunk, place, names)
            except ValueError:
                records = self._one_by_one(chunk, place, names)
        return Part(records, _offsets(aborted, place), _offsets(markers, place))

    def _one_by_one(self, chunk: Chunk, place: ChunkPlace, names: Sequence[str]) -> pa.RecordBatch:
        """The records of those batches of a chunk that can be decoded."""
        decoded = []
        for header, section in zip(chunk.headers, chunk.sections, strict=True):
            single = Chunk()
            single.add(header, section)
            try:
                decoded.append(decode(single, place, names))
            except ValueError as single_error:
                self._note(header, place, single_error)
        if not decoded:
            return _no_records(names)
        return pa.Table.from_batches(decoded).combine_chunks().to_batches()[0]


def _no_records(names: Sequence[str]) -> pa.RecordBatch:
    kinds = [COLUMNS[name].arrow for name in names]
    return pa.RecordBatch.from_arrays([pa.array([], kind) for kind in kinds], names=list(names))


def _offsets(batches: list[tuple[int, int]], place: ChunkPlace) -> Longs:
    """The offsets of whole batches that are in the place."""
    if not batches:
        return np.empty(0, np.int64)
    parts = [np.arange(max(first, place.start), min(end, place.end), dtype=np.int64) for first, end in batches]
    return np.concatenate(parts)
