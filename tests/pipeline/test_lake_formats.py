"""`lake` into Iceberg and plain Parquet, and the bounds of what a schema may be."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import structlog

from odradek import Broker
from tests.pipeline.lakes import Lake, committed, create_topic, delete_records, offsets, produce, transact

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def lake(spark: SparkSession, broker: Broker, tmp_path: Path) -> Lake:
    return Lake(spark, broker.bootstrap_servers, tmp_path / "lake")


@pytest.mark.every_spark
def test_iceberg_takes_a_batch_once_and_compacts(lake: Lake, topic: str) -> None:
    table, letters = f"odradek_lake.`{topic}`", f"odradek_lake.`{topic}@dead-letters`"
    create_topic(lake.bootstrap, topic)
    schemas = [f"{topic}=json:n INT"]
    transact(lake.bootstrap, topic, topic, [([{"n": 1}, {"n": 2}], True), ([{"n": -1}], False)])
    assert lake.run(topic, table_format="iceberg", schemas=schemas) == {}
    produce(lake.bootstrap, topic, [{"n": 3}, b"bad"], timestamp=86_400_000)
    assert lake.run(topic, table_format="iceberg", schemas=schemas, optimize_every=2) == {}
    commits = lake.path / "@checkpoints" / topic / "records" / "0" / "commits"
    for name in ("1", ".1.crc"):
        (commits / name).unlink()
    assert lake.run(topic, table_format="iceberg", schemas=[f"{topic}=json:n INT, s STRING"]) == {}
    read = lake.spark.table(table)
    assert sorted((row.partition, row.offset) for row in read.collect()) == [(0, 0), (0, 1), (0, 5)]
    assert offsets(lake.spark.table(letters)) == [(0, 6)]
    partitions = lake.spark.sql(f"SELECT partition.date FROM {table}.partitions").collect()
    assert len(partitions) == 2
    marks = lake.spark.sql(f"SELECT summary['odradek.batch'] AS mark FROM {table}.snapshots").collect()
    assert len([row.mark for row in marks if row.mark]) == 2


@pytest.mark.every_spark
def test_parquet_names_unknown_fields_and_tells_lost_records(lake: Lake, topic: str) -> None:
    create_topic(lake.bootstrap, topic)
    produce(lake.bootstrap, topic, [{"n": 0, "before": 1}])
    produce(lake.bootstrap, topic, [{"n": 1, "b": 1, "c": 1}, {"n": 1, "a": {"x": 1}, "c": 2}, b"bad"])
    asked = {"table_format": "parquet", "schemas": [f"{topic}=json:n INT"]}
    delete_records(lake.bootstrap, topic, 1)
    with structlog.testing.capture_logs() as log:
        assert lake.run(topic, **asked) == {}
    assert [event["fields"] for event in log if "fields" in event] == [{"c": 2, "a": 1, "b": 1}]
    assert (lake.reporter.topics[topic].unknown, lake.reporter.topics[topic].dead_letters) == (2, 1)
    produce(lake.bootstrap, topic, [b"5", b"6"])
    delete_records(lake.bootstrap, topic, 5)
    assert "partition 0 begins at offset 5, and 4 is the next to read" in lake.run(topic, **asked)[topic]


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_fields_come_and_go_in_any_order(lake: Lake, topic: str, table_format: str) -> None:
    create_topic(lake.bootstrap, topic)
    schemas = [
        "a INT, s STRUCT<x: INT, y: INT>, b STRING",
        "b STRING, s STRUCT<z: INT, y: INT, x: INT>, a INT",
        "c INT",
    ]
    for schema in schemas:
        produce(lake.bootstrap, topic, [{"a": 1, "b": "2", "c": 3, "s": {"x": 4, "y": 5, "z": 6}}])
        assert lake.run(topic, table_format=table_format, schemas=[f"{topic}=json:{schema}"]) == {}
    if table_format == "iceberg":
        lake.spark.sql(f"REFRESH TABLE odradek_lake.`{topic}`")
    table = lake.spark.table(f"odradek_lake.`{topic}`") if table_format == "iceberg" else lake.delta(topic)
    read = table.orderBy("offset").select("value.a", "value.b", "value.c", "value.s.x", "value.s.y", "value.s.z")
    assert [tuple(row) for row in read.collect()] == [
        (1, "2", None, 4, 5, None),
        (1, "2", None, 4, 5, 6),
        (None, None, 3, None, None, None),
    ]


def test_parquet_is_exact_for_readers_of_the_sinks_log(lake: Lake, topic: str) -> None:
    create_topic(lake.bootstrap, topic)
    schemas = [f"{topic}=json:n INT"]
    transact(lake.bootstrap, topic, topic, [([{"n": 1}, b"bad"], True), ([{"n": -1}], False)])
    assert lake.run(topic, table_format="parquet", schemas=schemas) == {}
    assert lake.run(topic, table_format="parquet", schemas=schemas) == {}
    produce(lake.bootstrap, topic, [{"n": 2}])
    assert lake.run(topic, table_format="parquet", schemas=schemas) == {}
    read = lake.spark.read.parquet(str(lake.path / topic))
    letters = lake.spark.read.parquet(str(lake.path / f"{topic}@dead-letters"))
    assert sorted(offsets(read) + offsets(letters)) == [(p, o) for p, o, _ in committed(lake.bootstrap, topic)]
    assert [row.reason for row in letters.collect()] == ["not JSON"]
    assert (lake.reporter.topics[topic].records, lake.reporter.topics[topic].dead_letters) == (3, 1)
    assert (
        "stays as it began" in lake.run(topic, table_format="parquet", schemas=[f"{topic}=json:n INT, s STRING"])[topic]
    )
    assert f"is of topic {topic} in format parquet" in lake.run(topic, schemas=schemas)[topic]


def test_a_schema_that_no_table_could_have_is_refused(lake: Lake, topic: str) -> None:
    create_topic(lake.bootstrap, topic)
    produce(lake.bootstrap, topic, [{"n": 1, "N": 2}])
    assert "differ in case only" in lake.run(topic, schemas=[f"{topic}=json"])[topic]
    assert "Delta refuses" in lake.run(topic, schemas=[f"{topic}=json:x STRUCT<`a b`: INT>"])[topic]
    assert "is no schema" in lake.run(topic, schemas=[f"{topic}=json:n NOTYPE"])[topic]
    assert "keys in JSON are strings" in lake.run(topic, schemas=[f"{topic}=json:m MAP<INT, INT>"])[topic]
    assert lake.run(topic, schemas=[f"{topic}=json:n INT"]) == {}, "what was refused was not settled"
    assert lake.run("no-such-topic") == {"no-such-topic": "topic no-such-topic does not exist"}
