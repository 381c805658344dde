"""Plain Parquet: Spark's own file sink, whose log says which files count.

Exactly once for readers that honour the log (`_spark_metadata` in the table's folder: Spark does); others may see the
files of every attempt at a batch. A sink's log belongs to one query, so the dead letters need a query of their own, and
a topic's schema cannot change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from odradek_pipeline.files import join
from odradek_pipeline.lake import records
from odradek_pipeline.lake.ingest import MOST_NAMES, RECORDS, Ingest
from odradek_pipeline.lake.naming import LakeError
from odradek_pipeline.lake.partitioning import BY_DATE, with_columns
from odradek_pipeline.lake.progress import offsets_of
from odradek_pipeline.lake.state import TopicState

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

DEAD_LETTERS = "dead-letters"
SINK_LOG = "_spark_metadata"
COUNT = "counts"


class ParquetIngest(Ingest):
    """The queries of one topic: one for its rows and, if it has a schema, one for its dead letters."""

    def start(self) -> list[StreamingQuery]:
        struct = self._struct(0)
        stream = self._stream()
        table, dead_letters = self._settings.table(self.topic), self._settings.dead_letters(self.topic)
        if struct is None:
            return [self._sink(records.raw_rows(stream), table, RECORDS)]
        judged = records.json_judged(stream, struct, bool(self._settings.unknown_fields))
        return [
            self._sink(self._good(judged), table, RECORDS),
            self._sink(
                records.dead_letters(judged.observe(COUNT, *records.counts(()), *_examples())),
                dead_letters,
                DEAD_LETTERS,
            ),
        ]

    def progressed(self, part: int, progress: StreamingQueryProgress) -> None:
        if part == 0:
            self._around.counted(self.topic, progress.numInputRows, 0, 0, {})
        elif COUNT in progress.observedMetrics:
            seen = progress.observedMetrics[COUNT]
            fields = {}
            if {seen["least"], seen["greatest"]} - {None, *self._named} and len(self._named) < MOST_NAMES:
                fields = self._name_unknown(self._judged_again(progress))
            self._around.counted(self.topic, 0, seen["bad"], seen["unknown"], fields)

    def _judged_again(self, progress: StreamingQueryProgress) -> DataFrame:
        """The records of a batch that is in the table, without those that the broker has deleted since."""
        struct = self._struct(0)
        source = progress.sources[0]
        first, last = self._around.admin.offsets(self.topic)
        start, end = (_offsets(text, self.topic) for text in (source.startOffset, source.endOffset))
        start = start or self._checkpoint.first_offsets(self.state, DEAD_LETTERS).get(self.topic, {})
        begin = {partition: max(first[partition], start.get(partition, 0)) for partition in first}
        stop = {partition: max(begin[partition], min(end.get(partition, 0), last[partition])) for partition in first}
        if struct is None:
            raise RuntimeError("raw records have no fields")
        return records.json_judged(self._range(begin, stop), struct)

    @property
    def parts(self) -> tuple[str, ...]:
        return (RECORDS, DEAD_LETTERS) if self._struct(0) is not None else (RECORDS,)

    def _sink(self, rows: DataFrame, path: str, part: str) -> StreamingQuery:
        divided = self._divided if part == RECORDS else BY_DATE
        writer = with_columns(rows, divided).writeStream.format("parquet").option("path", path)
        writer = writer.partitionBy(*(field.column for field in divided))
        return self._triggered(writer, part).start()

    def _table_exists(self) -> bool:
        return self._around.files.exists(join(self._settings.table(self.topic), SINK_LOG))

    def _carry_on(self, state: TopicState, topic_id: str, schema: dict[str, object] | None) -> TopicState:
        if state.unknown_fields != self._settings.unknown_fields:
            began = (
                f"with --unknown-fields {state.unknown_fields}" if state.unknown_fields else "without --unknown-fields"
            )
            raise LakeError(f"topic {self.topic}: the columns of a Parquet table stay as they began, {began}")
        return super()._carry_on(state, topic_id, schema)

    def _follow(self, state: TopicState, topic_id: str, schema: dict[str, object] | None) -> NoReturn:
        raise LakeError(f"topic {self.topic} was recreated, which a Parquet table cannot follow: give another --lake")

    def _check_change(self, state: TopicState, schema: dict[str, object] | None) -> NoReturn:
        raise LakeError(f"topic {self.topic}: the schema of a Parquet table stays as it began: give another --lake")


def _examples() -> list[Column]:
    """Two unknown fields of a batch: a file sink's plan stays, so those that were named cannot be left out of it."""
    from pyspark.sql import functions as F

    least, greatest = F.min(F.array_min(records.UNKNOWN)), F.max(F.array_max(records.UNKNOWN))
    return [least.alias("least"), greatest.alias("greatest")]


def _offsets(text: str | None, topic: str) -> dict[int, int]:
    return {int(partition): offset for partition, offset in offsets_of(text, topic).items()}
