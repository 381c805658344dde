"""Tables of one row a key: that of its newest record. A record without a value, a tombstone, deletes the row.

A batch is merged. A record is only taken if it is newer than the key's row, and than the guard that a deleted key
leaves in a table beside; so a batch that comes again, or late, or from an older checkpoint, changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from odradek_pipeline.files import quoted
from odradek_pipeline.lake import envelope, records
from odradek_pipeline.lake.ingest import IngestServices
from odradek_pipeline.lake.naming import LakeError
from odradek_pipeline.lake.partitioning import UNDIVIDED
from odradek_pipeline.lake.reshape import reshaped
from odradek_pipeline.lake.schemas import spec_of
from odradek_pipeline.lake.state import TopicState
from odradek_pipeline.lake.tables import ANY_SCHEMA, Table
from odradek_pipeline.lake.transactional import TransactionalIngest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

KEY = "key"
DELETES = "_deletes"
DELETED_AT = "deleted_at"
PLACE = ("partition", "offset", "timestamp")
BATCH_VIEW = "odradek_batch"
NO_KEY = "no key"
MERGED_INTO = dict.fromkeys(("write.merge.mode", "write.delete.mode", "write.update.mode"), "merge-on-read") | {
    ANY_SCHEMA: "false"
}
"""For Iceberg: a change writes a file of positions, and not all the rows that were beside the old one."""


class UpsertIngest(TransactionalIngest):
    """Merges a batch at a time into the topic's table; what has no key goes to the dead letters."""

    upsert = True

    def __init__(self, around: IngestServices, topic: str) -> None:
        super().__init__(around, topic)
        self._guards = self._make_table(self._settings.deleted_keys(topic), UNDIVIDED, MERGED_INTO)
        self._enveloped = envelope.has_one(self._settings.envelopes, topic)

    def _topic_table(self) -> Table:
        return self._make_table(self._settings.table(self.topic), self._divided, MERGED_INTO)

    def _write_first(self, batch: DataFrame, number: int) -> None:
        self._merge(batch, number, retried=False)

    def _write_again(self, batch: DataFrame, number: int) -> None:
        self._merge(batch, number, retried=True)

    def _merge(self, batch: DataFrame, number: int, *, retried: bool) -> None:
        judged = self._judged(batch, number)
        if records.KEY in judged.columns:
            self._take(newest(self._changes(judged)).persist())
        else:  # no record has a key whose schema is known, so the table has no column for it yet
            self._table.create(self._good(judged))
        (row,) = judged.agg(*records.counts(self._named)).collect()
        self._write_rest(judged, number, row.asDict(), retried=retried)

    def _take(self, changes: DataFrame) -> None:
        """The guards come first: a crash after them leaves rows that the next attempt deletes."""
        try:
            if changes.where(DELETES).take(1):
                self._guard(changes.where(DELETES))
            merge(self._table, self._unguarded(changes))
        finally:
            changes.unpersist()

    def _judged(self, batch: DataFrame, number: int) -> DataFrame:
        """A record without a key, or with one that reads as null, is a dead letter whatever its value."""
        from pyspark.sql import functions as F

        if self._enveloped and self._registered is None and (struct := self._struct(number)) is not None:
            keeps = bool(self._settings.unknown_fields)
            judged = records.json_judged(batch, envelope.around(struct), keeps)
        else:
            found = super()._judged(batch, number)
            judged = records.raw_judged(batch) if found is None else found
        problem = F.col(records.PROBLEM)
        if self._has_envelopes(judged):
            kind = judged.schema[records.VALUE].dataType
            problem = F.coalesce(problem, envelope.problem(F.col(records.VALUE), kind))
        if records.KEY in judged.columns:
            problem = F.coalesce(problem, F.when(F.col(records.KEY).isNull(), NO_KEY))
        problem = F.when(F.col(KEY).isNull(), NO_KEY).otherwise(problem)
        judged = judged.withColumn(records.PROBLEM, problem)
        return judged.withColumn(records.UNKNOWN, F.when(F.col(records.PROBLEM).isNull(), F.col(records.UNKNOWN)))

    def _changes(self, judged: DataFrame) -> DataFrame:
        """The good records as rows of the table, with `_deletes`."""
        from pyspark.sql import functions as F

        deletes = F.col("value").isNull()
        if not self._has_envelopes(judged):
            return self._good(judged, deletes.alias(DELETES))
        value, kind = F.col(records.VALUE), judged.schema[records.VALUE].dataType
        deletes = deletes | F.coalesce(envelope.operation(value, kind) == envelope.DELETE, F.lit(False))
        rows = self._good(
            judged.withColumns({DELETES: deletes, records.VALUE: envelope.row(value, kind)}), F.col(DELETES)
        )
        return rows if envelope.has_row(kind) else rows.drop("value")

    def _has_envelopes(self, judged: DataFrame) -> bool:
        """Not before a schema of values is known."""
        return self._enveloped and records.VALUE in judged.columns

    def _guard(self, deletions: DataFrame) -> None:
        from pyspark.sql import functions as F

        merge(self._guards, deletions.select(KEY, *PLACE, F.current_timestamp().alias(DELETED_AT)))

    def _unguarded(self, changes: DataFrame) -> DataFrame:
        """The changes that are not older than the deletion of their key."""
        from pyspark.sql import functions as F

        if not self._guards.exists():
            return changes
        places = changes.select(KEY, *PLACE)
        _fit(self._guards, places)
        guards = changes.sparkSession.table(self._guards.in_sql(changes.sparkSession))
        kinds = places.schema[KEY].dataType, guards.schema[KEY].dataType
        is_same = F.col(f"s.{KEY}") == reshaped(F.col(f"t.{KEY}"), *kinds)
        return changes.alias("t").join(guards.alias("s"), is_same & F.expr(NEWER), "left_anti")

    @property
    def _tables(self) -> Sequence[Table]:
        return *super()._tables, self._guards

    def _expire(self, table: Table, spark: SparkSession) -> None:
        if table is self._guards:
            seconds = self._settings.tombstones_days * 86400
            old = f"{DELETED_AT} < current_timestamp() - make_dt_interval(0, 0, 0, {seconds})"
            spark.sql(f"DELETE FROM {table.in_sql(spark)} WHERE {old}")
        super()._expire(table, spark)

    def _resolve_schema(self, state: TopicState | None) -> dict[str, object] | None:
        if self._enveloped and spec_of(self._settings.specs, self.topic).is_raw:
            raise LakeError(f"topic {self.topic}: --envelope needs the schema of the row: --schema {self.topic}=json")
        return super()._resolve_schema(state)

    def _follow(self, state: TopicState, topic_id: str, schema: dict[str, object] | None) -> TopicState:
        raise LakeError(
            f"topic {self.topic} was recreated, and offsets of the new one say nothing about rows by key from the old: "
            "give another --lake"
        )


NEWER = (
    "(s.partition = t.partition AND s.offset > t.offset) OR (s.partition <> t.partition AND "
    "(s.timestamp > t.timestamp OR (s.timestamp = t.timestamp AND s.partition > t.partition)))"
)
"""Whether `s` is newer than `t`. A key is in one partition, unless the topic got more of them: then time decides."""


def newest(changes: DataFrame) -> DataFrame:
    """Of each key, the newest change."""
    from pyspark.sql import functions as F

    whole = F.struct("*")
    last = changes.groupBy(KEY, "partition").agg(F.max_by(whole, "offset").alias("it")).select("it.*")
    return last.groupBy(KEY).agg(F.max_by(whole, F.struct("timestamp", "partition")).alias("it")).select("it.*")


def merge(table: Table, changes: DataFrame) -> None:
    """Take those changes, one a key at most, that are newer than the table's rows; `_deletes`, if there, deletes."""
    spark = changes.sparkSession
    deletes = DELETES in changes.columns
    rows = changes.drop(DELETES)
    table.create(rows)
    _fit(table, rows)
    name = table.in_sql(spark)
    columns = spark.table(name).schema
    names = [quoted(column) for column in columns.names]
    _aligned(table.laid_out(changes), columns, deletes).createOrReplaceTempView(BATCH_VIEW)
    spark.sql(
        f"MERGE INTO {name} t USING {BATCH_VIEW} s ON t.{KEY} = s.{KEY} "
        + (f"WHEN MATCHED AND s.{DELETES} AND ({NEWER}) THEN DELETE " if deletes else "")
        + f"WHEN MATCHED AND ({NEWER}) THEN UPDATE SET {', '.join(f't.{name} = s.{name}' for name in names)} "
        + f"WHEN NOT MATCHED {f'AND NOT s.{DELETES} ' if deletes else ''}"
        + f"THEN INSERT ({', '.join(names)}) VALUES ({', '.join(f's.{name}' for name in names)})"
    )


def _fit(table: Table, rows: DataFrame) -> None:
    """Give the table, which exists, what it lacks of the rows' columns and fields."""
    spark = rows.sparkSession
    if _lacks(spark.table(table.in_sql(spark)).schema, rows.schema):
        table.widen(rows)


def _aligned(rows: DataFrame, columns: StructType, deletes: bool) -> DataFrame:
    """The rows with the table's columns and fields, in its order; what they lack is null."""
    from pyspark.sql.types import BooleanType, StructField, StructType

    more = [StructField(DELETES, BooleanType())] if deletes else []
    return rows.to(StructType([*columns.fields, *more]))


def _lacks(table: DataType, rows: DataType) -> bool:
    """Whether rows have a field, at any depth, that the table has not, or has with a narrower type."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    match table, rows:
        case StructType(), StructType():
            known = {field.name.lower(): field.dataType for field in table.fields}
            return any(
                field.name.lower() not in known or _lacks(known[field.name.lower()], field.dataType)
                for field in rows.fields
            )
        case ArrayType(), ArrayType():
            return _lacks(table.elementType, rows.elementType)
        case MapType(), MapType():
            return _lacks(table.valueType, rows.valueType)
    return table != rows
