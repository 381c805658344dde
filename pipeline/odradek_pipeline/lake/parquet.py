"""Plain Parquet: Spark's own file sink, whose log says which files count.

Exactly once for readers that honour the log (`_spark_metadata` in the table's folder: Spark does); others may see the
files of every attempt at a batch. A sink's log belongs to one query, so the dead letters need a query of their own, and
a topic's schema cannot change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from odradek_pipeline.files import join
from odradek_pipeline.lake import records
from odradek_pipeline.lake.errors import LakeError
from odradek_pipeline.lake.ingest import RECORDS, Ingest
from odradek_pipeline.lake.state import TopicState
from odradek_pipeline.lake.tables import PARTITION

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

DEAD_LETTERS = "dead-letters"
SINK_LOG = "_spark_metadata"
COUNT = "bad"


class ParquetIngest(Ingest):
    """The queries of one topic: one for its rows and, if it has a schema, one for its dead letters."""

    def start(self) -> list[StreamingQuery]:
        from pyspark.sql import functions as F

        struct = self._struct(0)
        stream = self._stream()
        table, dead_letters = self._settings.table(self.topic), self._settings.dead_letters(self.topic)
        if struct is None:
            return [self._sink(records.raw_rows(stream), table, RECORDS)]
        bad = F.count(F.col(records.PROBLEM)).alias(COUNT)
        judged = records.json_judged(stream, struct)
        return [
            self._sink(records.json_rows(judged), table, RECORDS),
            self._sink(records.dead_letters(judged.observe(COUNT, bad)), dead_letters, DEAD_LETTERS),
        ]

    def progressed(self, part: int, progress: StreamingQueryProgress) -> None:
        if part == 0:
            self._around.counted(self.topic, progress.numInputRows, 0)
        elif COUNT in progress.observedMetrics:
            self._around.counted(self.topic, 0, progress.observedMetrics[COUNT][COUNT])

    def _sink(self, rows: DataFrame, path: str, part: str) -> StreamingQuery:
        writer = rows.writeStream.format("parquet").partitionBy(PARTITION).option("path", path)
        return self._triggered(writer, part).start()

    def _table_exists(self) -> bool:
        return self._around.files.exists(join(self._settings.table(self.topic), SINK_LOG))

    def _follow(self, state: TopicState, topic_id: str, schema: dict[str, object] | None) -> NoReturn:
        raise LakeError(f"topic {self.topic} was recreated, which a Parquet table cannot follow: give another --lake")

    def _check_change(self, state: TopicState, schema: dict[str, object] | None) -> NoReturn:
        raise LakeError(f"topic {self.topic}: the schema of a Parquet table stays as it began: give another --lake")
