"""From the topic to the lake: a streaming query that keeps one row for each carrier and hour."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

FLIGHT = "scheduled TIMESTAMP, carrier STRING, dep_delay INT, arr_delay INT"
TABLE = "hour TIMESTAMP, carrier STRING, flights LONG, cancelled LONG, late LONG, dep_delay DOUBLE, arr_delay DOUBLE"
"""`hour` is its begin (UTC), `flights` those that were to leave in it, `cancelled` those that never did, `late` those
that left more than a quarter of an hour late; the delays are means in minutes."""

WATERMARK = "7 days"
"""An hour is settled when flights so much later were seen; the departures are never more than a day apart."""

LATE_MINUTES = 15


def start(spark: SparkSession, bootstrap: str, topic: str, table: Path, checkpoint: Path) -> StreamingQuery:
    """Start the query, which goes on until it is stopped; an hour's row is replaced whenever flights were added."""
    spark.createDataFrame([], TABLE).write.format("delta").save(str(table))
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    return (
        hours(records)
        .writeStream.outputMode("update")
        .option("checkpointLocation", str(checkpoint))
        .foreachBatch(lambda batch, _: merge(batch, table))
        .start()
    )


def copy(spark: SparkSession, bootstrap: str, topic: str, table: Path) -> None:
    """The topic's records as they are, for the audit: what `odradek-pipeline lake` would write, and keep writing."""
    records = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    rows = records.option("includeHeaders", "true").load()
    wanted = ("partition", "offset", "timestamp", "key", "headers", "value")
    rows.select(*wanted).write.format("delta").save(str(table))


def hours(records: DataFrame) -> DataFrame:
    """The columns of TABLE from the connector's records."""
    flight = F.from_json(F.col("value").cast("string"), FLIGHT, {"mode": "FAILFAST"})
    flights = records.select(flight.alias("flight")).select("flight.*").withWatermark("scheduled", WATERMARK)
    grouped = flights.groupBy(F.window("scheduled", "1 hour"), "carrier").agg(
        F.count("*").alias("flights"),
        F.count_if(F.isnull("dep_delay")).alias("cancelled"),
        F.count_if(F.col("dep_delay") > LATE_MINUTES).alias("late"),
        F.avg("dep_delay").alias("dep_delay"),
        F.avg("arr_delay").alias("arr_delay"),
    )
    return grouped.select(F.col("window.start").alias("hour"), *(name for name in grouped.columns if name != "window"))


def merge(batch: DataFrame, table: Path) -> None:
    """A batch that is written again after a failure changes nothing: its rows are whole, not differences."""
    batch.createOrReplaceTempView("batch")
    batch.sparkSession.sql(
        f"MERGE INTO delta.`{table}` AS old USING batch AS new ON old.hour = new.hour AND old.carrier = new.carrier "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )


def dropped(query: StreamingQuery) -> int:
    """How many rows came too late to be counted, in the batches that Spark remembers."""
    return sum(
        operator["numRowsDroppedByWatermark"] for batch in query.recentProgress for operator in batch["stateOperators"]
    )
