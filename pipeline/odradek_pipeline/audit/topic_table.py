"""Another topic in the place of a table: a copy with the same offsets, or one with a map of them (`restore`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from odradek_pipeline.audit.prints import Longs, longs
from odradek_pipeline.audit.sides import COMPARED, AuditError, Extent, Part, Topic
from odradek_pipeline.datasource.columns import COLUMNS

_NONE = np.empty(0, np.int64)
MAP_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("first", pa.int64()),
        ("last", pa.int64()),
        ("new_topic", pa.string()),
        ("new_first", pa.int64()),
    ]
)
"""A map of offsets: [first, last] of the old topic are at `new_first` and after it in the new one."""


class OffsetMap:
    """The ranges of one topic's partitions, in order. `new_topic` is where they are now, if that is known."""

    def __init__(self, ranges: Mapping[int, Sequence[tuple[int, int, int]]], new_topic: str | None = None) -> None:
        self.new_topic = new_topic
        self.ranges = {number: np.array(rows, np.int64).reshape(-1, 3) for number, rows in ranges.items()}

    @classmethod
    def read(cls, path: str, topic: str, column: str = "topic") -> OffsetMap:
        """What a file has of a topic, which `column` names: the old one, or `new_topic`. Raises AuditError."""
        try:
            rows = pq.read_table(path, schema=MAP_SCHEMA, filters=[(column, "=", topic)]).to_pylist()
        except (OSError, pa.ArrowInvalid) as error:
            raise AuditError(f"The map {path} cannot be read: {error}") from error
        if not rows:
            raise AuditError(f"The map {path} has nothing of the topic {topic}.")
        ranges: dict[int, list[tuple[int, int, int]]] = {}
        for row in rows:
            ranges.setdefault(row["partition"], []).append((row["first"], row["last"], row["new_first"]))
        return cls({number: sorted(of) for number, of in ranges.items()}, rows[0]["new_topic"])

    def old(self, partition: int, offsets: Longs) -> Longs:
        """The old offsets of new ones; -1 for those that the map does not have."""
        ranges = self.ranges.get(partition)
        if ranges is None or not len(ranges):
            return np.full(len(offsets), -1, np.int64)
        ranges = ranges[np.argsort(ranges[:, 2], kind="stable")]
        at = np.maximum(np.searchsorted(ranges[:, 2], offsets, side="right") - 1, 0)
        first, last, new_first = ranges[at].T
        found = first + offsets - new_first
        return np.where((offsets >= new_first) & (found <= last), found, -1)

    def new(self, partition: int, offset: int) -> int | None:
        """Where a group that would read `offset` next goes on; None if the map knows nothing of the partition.

        That is the first record at or after it. Behind the last one it is the end.
        """
        ranges = self.ranges.get(partition)
        if ranges is None or not len(ranges):
            return None
        at = int(np.searchsorted(ranges[:, 1], offset, side="left"))
        if at == len(ranges):
            first, last, new_first = ranges[-1]
            return int(new_first + last - first + 1)
        first, _, new_first = ranges[at]
        return int(new_first + max(0, offset - first))


class TopicTable:
    """A topic as a table."""

    def __init__(self, topic: Topic, offsets: OffsetMap | None = None) -> None:
        self.name = topic.name
        self._topic = topic
        self._offsets = offsets

    def columns(self) -> Mapping[str, pa.DataType]:
        return {name: COLUMNS[name].arrow for name in ("partition", "offset", *COMPARED)}

    def read(
        self, columns: Sequence[str], partition: int | None = None, start: int | None = None, end: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        for number, extent in self._topic.extents().items():
            if partition is not None and number != partition:
                continue
            first, last = extent
            if self._offsets is None:
                first = first if start is None else max(first, start)
                last = last if end is None else min(last, end)
            for part in self._topic.read(number, first, last, columns):
                offsets = longs(part.records.column("offset"))
                if self._offsets is not None:
                    offsets = self._offsets.old(number, offsets)
                numbers = pa.array(np.full(len(offsets), number, np.int32))
                arrays = [part.records.column(name) for name in columns]
                yield pa.RecordBatch.from_arrays(
                    [numbers, pa.array(offsets), *arrays], names=["partition", "offset", *columns]
                )


class MappedTopic:
    """A restored topic under its old offsets, to be compared with what has these. Other records in it are damage."""

    def __init__(self, topic: Topic, offsets: OffsetMap) -> None:
        self.name = topic.name
        self._topic = topic
        self._offsets = offsets
        self._unknown: dict[int, int] = {}

    def extents(self) -> Mapping[int, Extent]:
        return {number: Extent(int(of[0][0]), int(of[-1][1]) + 1) for number, of in self._offsets.ranges.items()}

    def damage(self) -> list[str]:
        unknown = [
            f"{self.name}-{number}: {count} records are not in the map" for number, count in self._unknown.items()
        ]
        return [*self._topic.damage(), *unknown]

    def read(self, partition: int, start: int, end: int, columns: Sequence[str]) -> Iterator[Part]:
        if partition not in self._offsets.ranges:
            return
        first, last = (self._offsets.new(partition, offset) or 0 for offset in (start, end))
        every = (start, end) == self.extents()[partition]
        if every:
            first, last = self._topic.extents()[partition]
        unknown = 0
        for part in self._topic.read(partition, first, last, columns):
            old = self._offsets.old(partition, longs(part.records.column("offset")))
            unknown += int((old < 0).sum())
            renamed = part.records.set_column(0, "offset", pa.array(old))
            yield Part(renamed.filter(pa.array((old >= start) & (old < end))), _NONE, _NONE)
        if every and unknown:
            self._unknown[partition] = unknown
