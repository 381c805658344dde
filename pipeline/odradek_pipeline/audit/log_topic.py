"""Records out of the batches of logs, wherever these are from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

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


class Hole(NamedTuple):
    """Offsets [first, end) whose batches are damaged."""

    first: int
    end: int


FoundBatch = tuple[BatchHeader, bytes | memoryview, bool]
"""(header, bytes, whether aborted)."""


@dataclass(slots=True)
class _Gathered:
    """What becomes one part: batches to decode, and the bounds [first, end) of others."""

    chunk: Chunk = field(default_factory=Chunk)
    aborted: list[tuple[int, int]] = field(default_factory=list)
    markers: list[tuple[int, int]] = field(default_factory=list)
    holes: list[tuple[int, int]] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        others = len(self.aborted) + len(self.markers) + len(self.holes)
        return self.chunk.size >= CHUNK_BYTES or others >= MOST_BATCHES


class LogTopic(ABC):
    """A topic whose batches somebody has: see `batches`. One that cannot be read is noted, and is a hole."""

    def __init__(self, topic: str) -> None:
        self.name = topic
        self._problems: list[str] = []

    @abstractmethod
    def batches(self, partition: int, start: int, end: int) -> Iterator[FoundBatch | Hole]:
        """The batches with offsets in [start, end), markers among them, and the holes between them."""

    def damage(self) -> list[str]:
        """What was found broken while it was read."""
        return self._problems

    def read(self, partition: int, start: int, end: int, columns: Sequence[str]) -> Iterator[Part]:
        names = ("offset", *columns)
        place = ChunkPlace(self.name, partition, start, end)
        gathered = _Gathered()
        for found in self.batches(partition, start, end):
            if isinstance(found, Hole):
                gathered.holes.append(found)
            else:
                self._gather(found, place, gathered)
            if gathered.is_full:
                yield self._part(gathered, place, names)
                gathered = _Gathered()
        yield self._part(gathered, place, names)

    def _gather(self, found: FoundBatch, place: ChunkPlace, into: _Gathered) -> None:
        header, batch, is_aborted = found
        if header.is_control or is_aborted:
            (into.markers if header.is_control else into.aborted).append((header.base_offset, header.next_offset))
        elif not header.compression:
            into.chunk.add(header, batch[HEADER_SIZE:])
        elif header.record_count:
            try:
                into.chunk.add(header, decompress(Compression(header.compression), batch[HEADER_SIZE:]))
            except ValueError as error:
                self._note(header, place, error, into)

    def _note(self, header: BatchHeader, place: ChunkPlace, error: Exception, into: _Gathered) -> None:
        where = f"{place.topic}-{place.partition}"
        text = f"{where}: the batch at offset {header.base_offset} cannot be read: {error}"
        if text not in self._problems:
            self._problems.append(text)
        into.holes.append((header.base_offset, header.next_offset))

    def _part(self, gathered: _Gathered, place: ChunkPlace, names: Sequence[str]) -> Part:
        if not gathered.chunk.headers:
            records = _no_records(names)
        else:
            try:
                records = decode(gathered.chunk, place, names)
            except ValueError:
                records = self._one_by_one(gathered, place, names)
        aborted, markers = _offsets(gathered.aborted, place), _offsets(gathered.markers, place)
        return Part(records, aborted, markers, tuple(gathered.holes))

    def _one_by_one(self, gathered: _Gathered, place: ChunkPlace, names: Sequence[str]) -> pa.RecordBatch:
        """The records of those batches of a chunk that can be decoded."""
        decoded = []
        for header, section in zip(gathered.chunk.headers, gathered.chunk.sections, strict=True):
            single = Chunk()
            single.add(header, section)
            try:
                decoded.append(decode(single, place, names))
            except ValueError as single_error:
                self._note(header, place, single_error, gathered)
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
