"""A raw table as what is restored from: its rows, in the order of their offsets, as batches.

Of parsed values the bytes are gone: such a table is refused, unless they may be encoded anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from odradek_pipeline.audit.findings import Findings, Ranges
from odradek_pipeline.audit.opened import TIMESTAMP_TYPE, OpenTable
from odradek_pipeline.audit.prints import longs
from odradek_pipeline.audit.run import Audit
from odradek_pipeline.audit.sides import COMPARED, AuditError, Extent, Part, Topic
from odradek_pipeline.audit.topic_table import MappedTopic, OffsetMap
from odradek_pipeline.datasource.columns import COLUMNS
from odradek_pipeline.protocol.records.batch import read_header, set_offsets_and_epoch
from odradek_pipeline.protocol.records.build import Record, build_batch
from odradek_pipeline.protocol.records.compression import Compression
from odradek_pipeline.protocol.topic_partition import TopicPartition
from odradek_pipeline.restore.encode import encoder
from odradek_pipeline.restore.folders import reaching
from odradek_pipeline.restore.merged import MadeBatch
from odradek_pipeline.restore.ordered import in_order

BATCH_RECORDS, BATCH_BYTES = 1_000, 256 << 10
_NONE = np.empty(0, np.int64)
_CREATE_TIME, _LOG_APPEND_TIME = 0, 1
ROW = pa.schema(
    [("offset", pa.int64()), *((name, COLUMNS[name].arrow) for name in COMPARED), (TIMESTAMP_TYPE, pa.int32())]
)


class TableSource:
    """The rows of one topic. `dead_letters` has those that a table of parsed values lacks."""

    def __init__(
        self, topic: str, table: OpenTable, dead_letters: OpenTable | None = None, *, reencode: bool = False
    ) -> None:
        """Raises AuditError for a table that does not have all of each record."""
        self.name = table.name
        self._topic = topic
        self._dead_letters = dead_letters
        self._tables = [table] if dead_letters is None else [table, dead_letters]
        columns = table.columns()
        missing = [name for name in COMPARED if name not in columns]
        if missing:
            raise AuditError(
                f"{table.name} has no column {', '.join(missing)}, so records cannot be made of its rows. If it has "
                "other names: --column value=NAME"
            )
        if pa.types.is_struct(columns["key"]):
            raise AuditError(f"{table.name} has parsed keys, whose bytes are gone: nothing can be restored from it.")
        self._encode: Callable[[pa.Array], pa.Array] | None = None
        if pa.types.is_struct(columns["value"]):
            if not reencode:
                raise AuditError(
                    f"{table.name} has parsed values, and their bytes are gone. Restore from a raw table, or files. "
                    "--reencode writes the values anew, as JSON, which is not what they were."
                )
            self._encode = encoder(columns["value"])
        self._extents = self._read_extents()
        if not self._extents:
            raise AuditError(f"{table.name} has no rows.")

    def _read_extents(self) -> Mapping[int, Extent]:
        found: dict[int, Extent] = {}
        for table in self._tables:
            for batch in table.read(()):
                numbers, offsets = longs(batch.column("partition")), longs(batch.column("offset"))
                if offsets.min() < 0 or numbers.min() < 0:
                    raise AuditError(f"{table.name} has a row with a negative offset or partition.")
                for number in np.unique(numbers).tolist():
                    own = offsets[numbers == number]
                    start, end = int(own.min()), int(own.max()) + 1
                    known = found.get(number, Extent(start, end))
                    found[number] = Extent(min(start, known.start), max(end, known.end))
        return found

    # -- as a source

    def partitions(self) -> list[TopicPartition]:
        return [TopicPartition(self._topic, number) for number in sorted(self._extents)]

    def log(self, partition: TopicPartition) -> TableLog:
        return TableLog(self, partition, self._extents[partition.partition])

    def audit(self, _topic: str, restored: Topic, offsets: OffsetMap | None = None) -> list[Findings]:
        """What the table has and lacks of a restored topic."""
        there = restored if offsets is None else MappedTopic(restored, offsets)
        until = {number: extent.end for number, extent in there.extents().items()}
        return Audit(there, self._tables[0], self._dead_letters, until).run()

    def topic(self, _name: str) -> TableTopic:
        return TableTopic(self, self._topic, self._extents)

    # -- rows

    def rows(self, partition: int, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """The rows of offsets [start, end), in their order: offset, those compared, and the timestamp's type.

        A row that is there several times is taken once. Raises AuditError if two of one offset are not the same.
        """
        yield from self._once(in_order(lambda *bounds: self._unordered(partition, *bounds), start, end), partition)

    def _unordered(self, partition: int, start: int, end: int) -> Iterator[pa.RecordBatch]:
        for table in self._tables:
            typed = TIMESTAMP_TYPE in table.columns()
            names = (*COMPARED, TIMESTAMP_TYPE) if typed else COMPARED
            for batch in table.read(names, partition, start, end):
                columns = {name: batch.column(name) for name in ("offset", *names)}
                if self._encode is not None and pa.types.is_struct(columns["value"].type):
                    columns["value"] = self._encode(columns["value"])
                columns.setdefault(TIMESTAMP_TYPE, pa.repeat(_CREATE_TIME, batch.num_rows))
                arrays = [columns[field.name].cast(field.type, safe=False) for field in ROW]
                yield pa.RecordBatch.from_arrays(arrays, schema=ROW)

    def _once(self, ordered: Iterator[pa.RecordBatch], partition: int) -> Iterator[pa.RecordBatch]:
        last: pa.RecordBatch | None = None
        for batch in ordered:
            both = batch if last is None else pa.concat_batches([last, batch])
            again = np.flatnonzero(np.diff(longs(both.column("offset"))) == 0)
            for at in again.tolist():
                if not both.slice(at, 1).equals(both.slice(at + 1, 1)):
                    offset = both.column("offset")[at]
                    raise AuditError(
                        f"{self.name} has two rows of partition {partition}, offset {offset}, that differ."
                    )
            if batch.num_rows:
                first = 0 if last is None else 1
                keep = np.setdiff1d(np.arange(first, both.num_rows), again + 1)
                last = both.slice(both.num_rows - 1, 1)
                yield both.take(pa.array(keep))


class TableTopic:
    """The table as a topic that is read."""

    def __init__(self, source: TableSource, name: str, extents: Mapping[int, Extent]) -> None:
        self.name = name
        self._source = source
        self._extents = extents

    def extents(self) -> Mapping[int, Extent]:
        return self._extents

    def damage(self) -> list[str]:
        return []

    def read(self, partition: int, start: int, end: int, columns: Sequence[str]) -> Iterator[Part]:
        for batch in self._source.rows(partition, start, end):
            yield Part(batch.select(["offset", *columns]), _NONE, _NONE)


class TableLog:
    """A partition's rows as a log. A table knows nothing of leader epochs: they are 0."""

    def __init__(self, source: TableSource, partition: TopicPartition, extent: Extent) -> None:
        self.partition = partition
        self.topic_id: str | None = None
        self.start, self.end = extent
        self.lost = Ranges()
        self.damage: list[str] = []
        self.open_transactions = 0
        self._source = source

    def committed(self, *, keep_epochs: bool, compression: Compression | None) -> Iterator[MadeBatch]:
        """Batches of up to 1,000 records and 256 KiB; those whose time the broker has set have one time each."""
        return reaching(self._made(compression), self.start, self.end)

    def _made(self, compression: Compression | None) -> Iterator[MadeBatch]:
        made = _Batches(Compression.NONE if compression is None else compression)
        for rows in self._source.rows(self.partition.partition, self.start, self.end):
            times = rows.column("timestamp").cast(pa.int64()).to_pylist()
            kinds = rows.column(TIMESTAMP_TYPE).to_pylist()
            columns = (rows.column(name).to_pylist() for name in ("offset", "key", "value", "headers"))
            for kind, micros, offset, key, value, headers in zip(kinds, times, *columns, strict=True):
                pairs = tuple((one["key"].encode(), one["value"]) for one in headers or ())
                millis = -1 if micros is None else micros // 1000
                yield from made.add(kind == _LOG_APPEND_TIME, Record(offset, millis, key, value, pairs))
        yield from made.rest()


class _Batches:
    """Collects records into batches."""

    def __init__(self, compression: Compression) -> None:
        self._compression = compression
        self._records: list[Record] = []
        self._appended = False
        self._size = 0

    def add(self, appended: bool, record: Record) -> Iterator[MadeBatch]:
        """A record, whose time the broker has set if `appended`; yields the batch before it, if that is full."""
        if self._records and not self._fits(appended, record):
            yield from self.rest()
        self._appended = appended
        self._records.append(record)
        self._size += len(record.key or b"") + len(record.value or b"")

    def _fits(self, appended: bool, record: Record) -> bool:
        first = self._records[0]
        return (
            len(self._records) < BATCH_RECORDS
            and self._size < BATCH_BYTES
            and appended == self._appended
            and (not appended or record.timestamp == first.timestamp)
            and record.offset - first.offset < 1 << 31
        )

    def rest(self) -> Iterator[MadeBatch]:
        if not self._records:
            return
        base = self._records[0].offset
        shifted = (record._replace(offset=record.offset - base) for record in self._records)
        time = self._records[0].timestamp if self._appended else -1
        data = build_batch(shifted, compression=self._compression, log_append_time=time)
        set_offsets_and_epoch(data, read_header(data), base, 0)
        self._records, self._size = [], 0
        yield read_header(data), data
