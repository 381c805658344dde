"""The tables a batch is appended to, each of which remembers in its own log which batches it has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from odradek_pipeline.files import Files, delta_name, join, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

PARTITION = "date"
BATCH_PROPERTY = "odradek.batch"


class Table(Protocol):
    """Created by its first append. `run` names the writer; a batch of a run is appended once, however often tried.

    `retried`: the batch may already be there, from an attempt with unknown outcome.
    """

    name: str

    def exists(self) -> bool: ...

    def append(self, rows: DataFrame, run: str, batch: int, retried: bool) -> None: ...

    def optimize(self, spark: SparkSession) -> None: ...


class DeltaTable:
    """A Delta table at a path. Its log records each commit's `run` and `batch`; a repeated one adds nothing."""

    def __init__(self, files: Files, path: str) -> None:
        self.name = path
        self._files = files

    def exists(self) -> bool:
        return self._files.exists(join(self.name, "_delta_log"))

    def append(self, rows: DataFrame, run: str, batch: int, retried: bool) -> None:
        writer = rows.write.format("delta").mode("append").partitionBy(PARTITION).option("mergeSchema", "true")
        writer.option("txnAppId", run).option("txnVersion", batch).save(self.name)

    def optimize(self, spark: SparkSession) -> None:
        spark.sql(f"OPTIMIZE {delta_name(spark, self.name)}")


class IcebergTable:
    """A table of an Iceberg catalog. Each snapshot's summary has `run` and `batch`; a retry looks for them first."""

    def __init__(self, spark: SparkSession, catalog: str, table: str) -> None:
        self._spark = spark
        self._catalog = catalog.partition(".")[0]
        self._table = f"{'.'.join(map(quoted, catalog.split('.')))}.{quoted(table)}"
        self.name = f"{catalog}.{table}"

    def exists(self) -> bool:
        return self._spark.catalog.tableExists(self._table)

    def append(self, rows: DataFrame, run: str, batch: int, retried: bool) -> None:
        mark = f"{run}:{batch}"
        if not self.exists():
            self._create(rows.schema)
        elif retried and self._has(mark):
            return
        # Fields are matched by name, even if a current schema has them in another order than the table.
        writer = rows.writeTo(self._table).option("mergeSchema", "true").option("check-ordering", "false")
        writer.option(f"snapshot-property.{BATCH_PROPERTY}", mark).append()

    def optimize(self, spark: SparkSession) -> None:
        bare = self._table.removeprefix(f"{quoted(self._catalog)}.").replace("'", "''")
        spark.sql(f"CALL {quoted(self._catalog)}.system.rewrite_data_files(table => '{bare}')")

    def _create(self, schema: StructType) -> None:
        """Create the table. Rows are not shuffled by date for writing: a whole day would go through one task."""
        from pyspark.sql import functions as F

        writer = self._spark.createDataFrame([], schema).writeTo(self._table).using("iceberg")
        properties = {
            "write.spark.accept-any-schema": "true",
            "write.distribution-mode": "none",
            "write.spark.fanout.enabled": "true",
        }
        for key, value in properties.items():
            writer = writer.tableProperty(key, value)
        writer.partitionedBy(F.col(PARTITION)).create()

    def _has(self, mark: str) -> bool:
        self._spark.sql(f"REFRESH TABLE {self._table}")
        found = self._spark.sql(f"SELECT 1 FROM {self._table}.snapshots WHERE summary['{BATCH_PROPERTY}'] = '{mark}'")
        return bool(found.take(1))
