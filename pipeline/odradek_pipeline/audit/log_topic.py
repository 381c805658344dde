"""Records out of the batches of logs, wherever these are from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from odradek_pipeline.audit.prints import Longs
from odradek_pipeline.audit.sides import Part
from odradek_pipeline.datasource.columns import COLUMNS
from odradek_pipeline.datasource.decode import Chunk, ChunkPlace, decode
from odradek_pipeline.protocol.records.batch import HEADER_SIZE, BatchHeader
from odradek_pipeline.protocol.records.compression import Compression, decompress

CHUNK_BYTES = 4 << 20
MOST_BATCHES = 10_000


class LogTopic:
    """A topic whose batches somebody has: see `batches`. A batch that cannot be read is noted and left out."""

    def __init__(self, topic: str) -> None:
        self.name = topic
        self._problems: list[str] = []

    def batches(self, partition: int, start: int, end: int) -> Iterator[tuple[BatchHeader, bytes | memoryview, bool]]:
        """(header, bytes, whether aborted) of the batches with offsets in [start, end), markers among them."""
        raise NotImplementedError

    def damage(self) -> list[str]:
        """What was found broken while it was read."""
        return self._problems

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

    def _section(self, header: BatchHeader, batch: bytes | memoryview, place: ChunkPlace) -> bytes | memoryview | None:
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
        self._problems.append(f"{where}: the batch at offset {header.base_offset} cannot be read: {error}")

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
