"""Delta and Iceberg: formats whose commits identify their batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import structlog

from odradek_pipeline.lake import records
from odradek_pipeline.lake.ingest import MOST_NAMES, RECORDS, Ingest, IngestServices
from odradek_pipeline.lake.naming import LakeError
from odradek_pipeline.lake.settings import DELTA
from odradek_pipeline.lake.tables import DeltaTable, IcebergTable, Table
from odradek_pipeline.reasons import reason

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

logger = structlog.get_logger(__name__)


class TransactionalIngest(Ingest):
    """Appends a batch at a time to the table and to the dead letters; each of the two takes it once."""

    def __init__(self, around: IngestServices, topic: str) -> None:
        super().__init__(around, topic)
        self._table = self._make_table(self._settings.table(topic))
        self._dead_letters = self._make_table(self._settings.dead_letters(topic))
        self._unsure = -1

    def start(self) -> list[StreamingQuery]:
        # A batch that was planned but not seen to end may be in the tables; no later one can be.
        planned = self._checkpoint.last_planned(self.state)
        self._unsure = planned if planned > self._checkpoint.last_committed(self.state) else -1
        return [self._triggered(self._stream().writeStream.foreachBatch(self._write), RECORDS).start()]

    def progressed(self, part: int, progress: StreamingQueryProgress) -> None:
        """Do nothing: batches were counted as they were written."""

    def _make_table(self, name: str) -> Table:
        if self._settings.table_format == DELTA:
            return DeltaTable(self._around.files, name)
        return IcebergTable(self._around.spark, self._settings.iceberg_catalog, name)

    def _table_exists(self) -> bool:
        return self._table.exists()

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
        every = self._settings.optimize_every
        if every and (number + 1) % every == 0:
            self._optimize(batch.sparkSession)

    def _write_first(self, batch: DataFrame, number: int) -> None:
        """Count the rows as they pass; read the batch again only for dead letters and to name unknown fields."""
        from pyspark.sql import Observation

        seen = Observation()
        judged = self._judged(batch, number)
        if judged is None:
            rows = records.raw_rows(batch.observe(seen, *records.counts()))
            self._table.append(rows, self.state.run, number, retried=False)
            self._around.counted(self.topic, seen.get["records"], 0, 0)
            return
        rows = records.good_rows(judged.observe(seen, *records.counts(self._named)))
        self._table.append(rows, self.state.run, number, retried=False)
        self._write_rest(judged, number, seen.get, retried=False)

    def _write_again(self, batch: DataFrame, number: int) -> None:
        """Write the batch again, and count its rows by reading it: no append does so if the tables already have it."""
        judged = self._judged(batch, number)
        if judged is None:
            self._table.append(records.raw_rows(batch), self.state.run, number, retried=True)
            self._around.counted(self.topic, batch.count(), 0, 0)
            return
        self._table.append(records.good_rows(judged), self.state.run, number, retried=True)
        (row,) = judged.agg(*records.counts(self._named)).collect()
        self._write_rest(judged, number, row.asDict(), retried=True)

    def _write_rest(self, judged: DataFrame, number: int, counts: Mapping[str, int], *, retried: bool) -> None:
        """Write the dead letters, if there are any: their table begins with the first one."""
        if counts["bad"]:
            self._dead_letters.append(records.dead_letters(judged), self.state.run, number, retried=retried)
        if counts["unnamed"] and len(self._named) < MOST_NAMES:
            self._name_unknown(judged)
        self._around.counted(self.topic, counts["records"], counts["bad"], counts["unknown"])

    def _optimize(self, spark: SparkSession) -> None:
        """Compact the tables; a failure only costs small files, so it is logged and the run goes on."""
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        for table in (self._table, self._dead_letters):
            if not table.exists():
                continue
            try:
                table.optimize(spark)
            except (PySparkException, Py4JJavaError) as error:
                logger.warning("table not compacted", table=table.name, error=reason(error))
            else:
                logger.info("table compacted", table=table.name)
