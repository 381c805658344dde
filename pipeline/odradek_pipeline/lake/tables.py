"""The tables a batch is appended to, each of which remembers in its own log which batches it has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from odradek_pipeline.files import Files, delta_name, join, quoted
from odradek_pipeline.lake import expiry
from odradek_pipeline.lake.naming import LakeError
from odradek_pipeline.lake.partitioning import BY_DATE, Partitioning, with_columns
from odradek_pipeline.lake.settings import DELTA, LakeSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

BATCH_PROPERTY = "odradek.batch"

ANY_SCHEMA = "write.spark.accept-any-schema"
"""An Iceberg table with this takes fields that it lacks; but no MERGE, since Spark then leaves names unresolved."""


class Table(Protocol):
    """Created by its first append, or `create`. `run` names the writer; a batch of a run is appended once, however
    often tried.

    `retried`: the batch may already be there, from an attempt with unknown outcome.
    """

    name: str

    def exists(self) -> bool: ...

    def append(self, rows: DataFrame, run: str, batch: int, retried: bool) -> None: ...

    def laid_out(self, rows: DataFrame) -> DataFrame:
        """The rows with every column of the table."""
        ...

    def create(self, rows: DataFrame) -> None:
        """Create the table, without rows, unless it exists."""
        ...

    def widen(self, rows: DataFrame) -> None:
        """Add the fields that these rows have and the table has not."""
        ...

    def in_sql(self, spark: SparkSession) -> str: ...

    def optimize(self, spark: SparkSession) -> None: ...

    def expire(self, spark: SparkSession, settings: LakeSettings, run: str) -> None:
        """Remove old snapshots and the files that only these have."""
        ...


class DeltaTable:
    """A Delta table at a path. Its log records each commit's `run` and `batch`; a repeated one adds nothing."""

    def __init__(self, files: Files, path: str, partitioning: Partitioning = BY_DATE) -> None:
        self.name = path
        self._files = files
        self._partitioning = partitioning

    def exists(self) -> bool:
        return self._files.exists(join(self.name, "_delta_log"))

    def append(self, rows: DataFrame, run: str, batch: int, retried: bool) -> None:
        if any(field.is_own_column for field in self._partitioning):
            self.create(rows)
        self._append(rows, {"txnAppId": run, "txnVersion": str(batch)})

    def laid_out(self, rows: DataFrame) -> DataFrame:
        return with_columns(rows, self._partitioning)

    def create(self, rows: DataFrame) -> None:
        """With generated columns, which a writer of rows cannot make."""
        if self.exists():
            return
        spark = rows.sparkSession
        if not spark.version.startswith("4.0."):  # the builder of Delta 4.1 needs a class that Spark 4.1.4 has not
            raise LakeError(
                f"{self.name}: a Delta table with --upsert, or divided by an hour, a day or a bucket, needs Spark 4.0, "
                f"and this is {spark.version}: take --format iceberg"
            )
        jvm: Any = spark._jvm
        delta = jvm.io.delta.tables.DeltaTable
        builder = delta.createIfNotExists(spark._jsparkSession).location(self._files.whole(self.name))
        builder = builder.addColumns(_nullable(jvm, rows.schema))
        kinds = self.laid_out(rows).schema
        for field in self._partitioning:
            if field.is_own_column:
                column = delta.columnBuilder(spark._jsparkSession, field.column)
                column = column.dataType(kinds[field.column].dataType.simpleString()).generatedAlwaysAs(field.sql)
                builder = builder.addColumn(column.build())
        gateway: Any = spark.sparkContext._gateway
        by = gateway.new_array(jvm.java.lang.String, len(self._partitioning))
        for number, field in enumerate(self._partitioning):
            by[number] = field.column
        builder.partitionedBy(by).execute()

    def widen(self, rows: DataFrame) -> None:
        self._append(rows.limit(0), {})

    def in_sql(self, spark: SparkSession) -> str:
        return delta_name(spark, self.name)

    def optimize(self, spark: SparkSession) -> None:
        spark.sql(f"OPTIMIZE {self.in_sql(spark)}")

    def expire(self, spark: SparkSession, settings: LakeSettings, run: str) -> None:
        expiry.expire_delta(spark, self.in_sql(spark), settings.keep_days)

    def _append(self, rows: DataFrame, options: Mapping[str, str]) -> None:
        writer = self.laid_out(rows).write.format("delta").mode("append").option("mergeSchema", "true")
        writer.partitionBy(*(field.column for field in self._partitioning)).options(**options).save(self.name)


class IcebergTable:
    """A table of an Iceberg catalog. Each snapshot's summary has `run` and `batch`; a retry looks for them first.

    Rows are not shuffled for writing: a whole day would go through one task. `properties` are for its creation.
    """

    def __init__(
        self,
        spark: SparkSession,
        catalog: str,
        table: str,
        partitioning: Partitioning = BY_DATE,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self._spark = spark
        self._catalog = catalog.partition(".")[0]
        self._table = f"{'.'.join(map(quoted, catalog.split('.')))}.{quoted(table)}"
        self.name = f"{catalog}.{table}"
        self._partitioning = partitioning
        self._properties = {
            ANY_SCHEMA: "true",
            "write.distribution-mode": "none",
            "write.spark.fanout.enabled": "true",
            "write.metadata.delete-after-commit.enabled": "true",
        } | dict(properties or {})

    def exists(self) -> bool:
        return self._spark.catalog.tableExists(self._table)

    def append(self, rows: DataFrame, run: str, batch: int, retried: bool) -> None:
        mark = f"{run}:{batch}"
        if not self.exists():
            self.create(rows)
        elif retried and self._has(mark):
            return
        self._append(rows, {f"snapshot-property.{BATCH_PROPERTY}": mark})

    def laid_out(self, rows: DataFrame) -> DataFrame:
        return rows

    def create(self, rows: DataFrame) -> None:
        if self.exists():
            return
        writer = self._spark.createDataFrame([], rows.schema).writeTo(self._table).using("iceberg")
        for key, value in self._properties.items():
            writer = writer.tableProperty(key, value)
        if self._partitioning:
            writer = writer.partitionedBy(*(field.transform() for field in self._partitioning))
        writer.create()

    def widen(self, rows: DataFrame) -> None:
        jvm: Any = self._spark._jvm
        columns = jvm.org.apache.iceberg.spark.SparkSchemaUtil.convert(_nullable(jvm, rows.schema))
        self._loaded().updateSchema().unionByNameWith(columns).commit()

    def in_sql(self, spark: SparkSession) -> str:
        spark.sql(f"REFRESH TABLE {self._table}")
        return self._table

    def optimize(self, spark: SparkSession) -> None:
        spark.sql(f"CALL {quoted(self._catalog)}.system.rewrite_data_files(table => '{self._bare}')")

    def expire(self, spark: SparkSession, settings: LakeSettings, run: str) -> None:
        newest = f"summary['{BATCH_PROPERTY}'] LIKE '{run}:%'"
        call = f"CALL {quoted(self._catalog)}.system.expire_snapshots(table => '{self._bare}',"
        expiry.expire_iceberg(spark, self.in_sql(spark), newest, call, settings.keep_snapshots, settings.keep_days)

    def divide(self, partitioning: Partitioning) -> None:
        """Divide what is written from now on in another way.

        In one commit, and by what the table has now: a second time it changes nothing.
        """
        jvm: Any = self._spark._jvm
        table = self._loaded()
        update = table.updateSpec()
        for field in table.spec().fields():
            update = update.removeField(field.name())
        for wanted in partitioning:
            update = update.addField(wanted.term(jvm.org.apache.iceberg.expressions.Expressions))
        update.commit()

    def _loaded(self) -> Any:
        """The table in Iceberg's own API, as it is now: others than this session write to it, such as a batch's."""
        jvm: Any = self._spark._jvm
        table = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(self._spark._jsparkSession, self._table)
        table.refresh()
        return table

    def _append(self, rows: DataFrame, options: Mapping[str, str]) -> None:
        # Fields are matched by name, even if a current schema has them in another order than the table.
        writer = rows.writeTo(self._table).option("mergeSchema", "true").option("check-ordering", "false")
        for key, value in options.items():
            writer = writer.option(key, value)
        writer.append()

    @property
    def _bare(self) -> str:
        """The table's name within its catalog, for a text in SQL."""
        return self._table.removeprefix(f"{quoted(self._catalog)}.").replace("'", "''")

    def _has(self, mark: str) -> bool:
        self._spark.sql(f"REFRESH TABLE {self._table}")
        found = self._spark.sql(f"SELECT 1 FROM {self._table}.snapshots WHERE summary['{BATCH_PROPERTY}'] = '{mark}'")
        return bool(found.take(1))


def make_table(
    files: Files,
    spark: SparkSession,
    settings: LakeSettings,
    name: str,
    partitioning: Partitioning = BY_DATE,
    properties: Mapping[str, str] | None = None,
) -> Table:
    """The table of that name in the lake; `properties` are for an Iceberg table."""
    if settings.table_format == DELTA:
        return DeltaTable(files, name, partitioning)
    return IcebergTable(spark, settings.iceberg_catalog, name, partitioning, properties)


def _nullable(jvm: Any, schema: StructType) -> Any:
    """The JVM's schema, with nothing required: what is required is judged before."""
    return jvm.org.apache.spark.sql.types.DataType.fromJson(schema.json()).asNullable()
