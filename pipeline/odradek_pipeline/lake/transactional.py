"""Delta and Iceberg: formats whose commits identify their batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import structlog

from odradek_pipeline.lake import partitioning, records
from odradek_pipeline.lake.ingest import MOST_NAMES, RECORDS, Ingest, IngestServices
from odradek_pipeline.lake.naming import LakeError
from odradek_pipeline.lake.partitioning import BY_DATE, Partitioning
from odradek_pipeline.lake.settings import ICEBERG
from odradek_pipeline.lake.tables import IcebergTable, Table, make_table
from odradek_pipeline.reasons import reason

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

logger = structlog.get_logger(__name__)


class TransactionalIngest(Ingest):
    """Appends a batch at a time to the table and to the dead letters; each of the two takes it once."""

    def __init__(self, around: IngestServices, topic: str) -> None:
        super().__init__(around, topic)
        self._table = self._topic_table()
        self._dead_letters = self._make_table(self._settings.dead_letters(topic))
        self._unsure = -1
        self._division_known = True

    def start(self) -> list[StreamingQuery]:
        self._table = self._topic_table()
        self._division_known = self._registered is None or self._table_exists()
        # A batch that was planned but not seen to end may be in the tables; no later one can be.
        planned = self._checkpoint.last_planned(self.state)
        self._unsure = planned if planned > self._checkpoint.last_committed(self.state) else -1
        return [self._triggered(self._stream().writeStream.foreachBatch(self._write), RECORDS).start()]

    def progressed(self, part: int, progress: StreamingQueryProgress) -> None:
        """Do nothing: batches were counted as they were written."""

    def _topic_table(self) -> Table:
        return self._make_table(self._settings.table(self.topic), self._divided)

    def _make_table(
        self, name: str, divided: Partitioning = BY_DATE, properties: Mapping[str, str] | None = None
    ) -> Table:
        return make_table(self._around.files, self._around.spark, self._settings, name, divided, properties)

    @property
    def _tables(self) -> Sequence[Table]:
        return self._table, self._dead_letters

    def _table_exists(self) -> bool:
        return self._table.exists()

    def _divide_anew(self, before: str) -> None:
        if isinstance(self._table, IcebergTable):
            spark = self._around.spark
            self._check_division(spark.table(self._table.in_sql(spark)).schema)
            self._table.divide(self._divided)
        else:
            super()._divide_anew(before)

    def _check_division(self, columns: StructType) -> None:
        partitioning.check(self.topic, self._divided, columns, self._settings.table_format == ICEBERG)

    def _good(self, judged: DataFrame, *more: Column) -> DataFrame:
        """What a registry's schemas make of keys and values, only the first batch tells."""
        rows = super()._good(judged, *more)
        if not self._division_known:
            self._check_division(rows.schema)
            self._division_known = True
        return rows

    def _write(self, batch: DataFrame, number: int) -> None:
        """The function given to foreachBatch; an exception ends the query."""
        try:
            self.check_topic(self._around.admin.topic_ids([self.topic]).get(self.topic))
            write = self._write_again if number == self._unsure else self._write_first
            if self._registered is None:
                write(batch, number)
            else:
                self._registered.write(batch, number, number == self._unsure, write)
        except LakeError as error:
            self.failure = error
            raise
        every, spark = self._settings.optimize_every, batch.sparkSession
        if every and (number + 1) % every == 0:
            self._care(lambda table: table.optimize(spark), "compacted")
        if (number + 1) % self._settings.keep_snapshots == 0:  # so there are never more than twice as many
            self._care(lambda table: self._expire(table, spark), "rid of old files")

    def _write_first(self, batch: DataFrame, number: int) -> None:
        """Count the rows as they pass; read the batch again only for dead letters and to name unknown fields."""
        from pyspark.sql import Observation

        seen = Observation()
        judged = self._judged(batch, number)
        if judged is None:
            rows = records.raw_rows(batch.observe(seen, *records.counts()))
            self._table.append(rows, self.state.run, number, retried=False)
            self._around.counted(self.topic, seen.get["records"], 0, 0, {})
            return
        rows = self._good(judged.observe(seen, *records.counts(self._named)))
        self._table.append(rows, self.state.run, number, retried=False)
        self._write_rest(judged, number, seen.get, retried=False)

    def _write_again(self, batch: DataFrame, number: int) -> None:
        """Write the batch again, and count its rows by reading it: no append does so if the tables already have it."""
        judged = self._judged(batch, number)
        if judged is None:
            self._table.append(records.raw_rows(batch), self.state.run, number, retried=True)
            self._around.counted(self.topic, batch.count(), 0, 0, {})
            return
        self._table.append(self._good(judged), self.state.run, number, retried=True)
        (row,) = judged.agg(*records.counts(self._named)).collect()
        self._write_rest(judged, number, row.asDict(), retried=True)

    def _write_rest(self, judged: DataFrame, number: int, counts: Mapping[str, int], *, retried: bool) -> None:
        """Write the dead letters, if there are any: their table begins with the first one."""
        if counts["bad"]:
            self._dead_letters.append(records.dead_letters(judged), self.state.run, number, retried=retried)
        fields = records.field_counts(counts, self._named)
        if counts["unnamed"] and len(self._named) < MOST_NAMES:
            fields |= self._name_unknown(judged)
        self._around.counted(self.topic, counts["records"], counts["bad"], counts["unknown"], fields)

    def _expire(self, table: Table, spark: SparkSession) -> None:
        """A Delta table that is only appended to has no old files, and to look for them lists all of them."""
        settings = self._settings
        if settings.table_format == ICEBERG or self.upsert or settings.optimize_every or settings.keep_days is not None:
            table.expire(spark, settings, self.state.run)

    def _care(self, what: Callable[[Table], None], done: str) -> None:
        """Take care of the tables; a failure only costs space, so it is logged and the run goes on."""
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        for table in (table for table in self._tables if table.exists()):
            try:
                what(table)
            except (PySparkException, Py4JJavaError) as error:
                logger.warning(f"table not {done}", table=table.name, error=reason(error))
            else:
                logger.info(f"table {done}", table=table.name)
