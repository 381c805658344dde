"""`spark.read.format("odradek")`: plans the pieces, and turns each of them into Arrow batches."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from odradek_pipeline.datasource.decode import Chunk, ChunkPlace, decode
from odradek_pipeline.datasource.errors import CorruptLogError
from odradek_pipeline.datasource.indexes import AbortedBatches
from odradek_pipeline.datasource.log_view import LogState, Planner
from odradek_pipeline.datasource.offsets import OffsetRange, batch_ranges
from odradek_pipeline.datasource.options import SourceOptions
from odradek_pipeline.datasource.pieces import Piece
from odradek_pipeline.datasource.scan import PieceScan
from odradek_pipeline.datasource.splits import Split, splits_of
from odradek_pipeline.protocol.records.batch import HEADER_SIZE, BatchHeader
from odradek_pipeline.protocol.records.compression import Compression, DecompressionError, decompress
from odradek_pipeline.protocol.topic_partition import TopicPartition

logger = logging.getLogger(__name__)


class OdradekReader(DataSourceReader):
    """A batch query: it reads what exists when it is planned."""

    def __init__(self, options: SourceOptions, names: Sequence[str]) -> None:
        self.options = options
        self.names = tuple(names)

    def partitions(self) -> list[InputPartition]:
        """Raises DataSourceError or a subclass, OSError."""
        planner = Planner(self.options)

        def look() -> Mapping[TopicPartition, LogState]:
            states = planner.look()
            planner.check_topics(states)
            return states

        return list(splits_of(look, lambda states: self.restrict(batch_ranges(states, self.options)), self.options))

    def restrict(self, ranges: list[OffsetRange]) -> list[OffsetRange]:
        """The parts of the ranges that the query's filters let through."""
        return ranges

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of a split. If there is no split, Spark has a partition without a value read."""
        if not isinstance(partition, Split):
            return iter(())
        return read_split(partition, self.options, self.names)


def read_split(split: Split, options: SourceOptions, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Arrow batches of about `batchBytes` of decompressed records. Raises DataSourceError or a subclass, OSError."""
    for piece in split.pieces:
        yield from read_piece(piece, options, names)


def read_piece(piece: Piece, options: SourceOptions, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """As `read_split`, for one of its pieces."""
    aborted = AbortedBatches(piece.aborted)
    place = ChunkPlace(*piece.partition, piece.start, piece.end)
    chunk = Chunk()
    for header, batch in PieceScan(piece, options).batches():
        if header.is_control or not header.record_count or header in aborted:
            continue
        try:
            section: bytes | memoryview = batch[HEADER_SIZE:]
            if header.compression:
                section = decompress(Compression(header.compression), section)
        except (DecompressionError, ValueError) as error:
            _damaged(piece, header, error, options)
            continue
        if chunk.size and chunk.size + len(section) > options.batch_bytes:
            yield from _decoded(chunk, place, options, names)
            chunk = Chunk()
        chunk.add(header, section)
    yield from _decoded(chunk, place, options, names)


def _decoded(chunk: Chunk, place: ChunkPlace, options: SourceOptions, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The chunk's records; decoded batch by batch if one of its batches is malformed."""
    if not chunk.headers:
        return
    try:
        decoded = decode(chunk, place, names)
    except ValueError as error:
        if len(chunk.headers) == 1:
            _damaged(place, chunk.headers[0], error, options)
            return
        for header, section in zip(chunk.headers, chunk.sections, strict=True):
            single = Chunk()
            single.add(header, section)
            yield from _decoded(single, place, options, names)
        return
    if decoded.num_rows:
        yield decoded


def _damaged(where: Piece | ChunkPlace, header: BatchHeader, error: Exception, options: SourceOptions) -> None:
    partition = where.partition if isinstance(where, Piece) else f"{where.topic}-{where.partition}"
    text = f"The records of the batch at offset {header.base_offset} of {partition} cannot be read: {error}."
    if options.fail_on_corruption:
        raise CorruptLogError(f"{text} With failOnCorruption=false they are left out.") from error
    logger.warning("damaged batch left out: %s", text)
