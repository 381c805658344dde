"""`lake --partition-by`, read by delta-rs, pyiceberg and DuckDB."""

from __future__ import annotations

import datetime
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="requirements-pipeline.txt is not installed")
pytest.importorskip("pyiceberg", reason="requirements-pipeline.txt is not installed")
pytest.importorskip("duckdb", reason="requirements-pipeline.txt is not installed")

import deltalake
import duckdb

from odradek import Broker
from odradek_pipeline.lake import partitioning
from tests.pipeline import readers
from tests.pipeline.lakes import Lake, create_topic, offsets, produce

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOUR_MS = 3_600_000
SPEC = "hour(timestamp), value.country, bucket(4, key)"


@pytest.fixture
def lake(spark: SparkSession, broker: Broker, tmp_path: Path) -> Lake:
    return Lake(spark, broker.bootstrap_servers, tmp_path / "lake")


def fill(lake: Lake, topic: str) -> None:
    create_topic(lake.bootstrap, topic)
    for number, country in enumerate(["CZ", "AT", "CZ"]):
        value = {"n": number, "country": country}
        produce(lake.bootstrap, topic, [value], key=b"k%d" % number, timestamp=(400_000 + number) * HOUR_MS + 1)


def asked(topic: str, table_format: str, spec: str | None = SPEC, **rest: Any) -> dict[str, Any]:
    given = {} if spec is None else partitioning.parse([f"{topic}={spec}"])
    schemas = [f"{topic}=json:n INT, country STRING"]
    return {"table_format": table_format, "schemas": schemas, "partitions": given} | rest


def test_delta_has_generated_columns_that_prune_by_the_time_itself(lake: Lake, topic: str) -> None:
    fill(lake, topic)
    assert lake.run(topic, **asked(topic, "delta")) == {}
    assert lake.run(topic, **asked(topic, "delta", None)) == {}, "what was said at first stays"
    table = deltalake.DeltaTable(str(lake.path / topic))
    assert table.metadata().partition_columns == ["timestamp_hour", "value_country", "key_bucket"]
    rows = readers.rows("delta", lake.path / topic)
    for row in rows:
        assert row["timestamp_hour"] == row["timestamp"].replace(minute=0, second=0, microsecond=0)
        assert row["value_country"] == row["value"]["country"]
        assert row["key_bucket"] == zlib.crc32(row["key"]) % 4
    assert len(rows) == 3
    one = lake.delta(topic).where(f"timestamp >= timestamp_millis({400_002 * HOUR_MS})")
    assert one._jdf.queryExecution().executedPlan().toString().count("timestamp_hour") > 1
    assert offsets(one) == [(0, 2)]
    assert "only an Iceberg table can change that" in lake.run(topic, **asked(topic, "delta", "day(timestamp)"))[topic]


def test_iceberg_has_transforms_and_may_change_them(lake: Lake, topic: str, warehouse: Path) -> None:
    fill(lake, topic)
    assert lake.run(topic, **asked(topic, "iceberg")) == {}
    produce(lake.bootstrap, topic, [{"n": 3, "country": "CZ"}], key=b"k")
    for _ in range(2):
        assert lake.run(topic, **asked(topic, "iceberg", "day(timestamp)")) == {}
    table = readers.iceberg(warehouse / topic)
    transforms = {spec: [str(field.transform) for field in fields.fields] for spec, fields in table.specs().items()}
    assert transforms == {0: ["hour", "identity", "bucket[4]"], 1: ["day"]}
    assert {task.file.spec_id for task in table.scan().plan_files()} == {0, 1}
    at = datetime.datetime.fromtimestamp(400_002 * 3600, datetime.UTC).isoformat()
    hour = table.scan(row_filter=f"timestamp >= '{at}' and timestamp < '2020-01-01T00:00:00+00:00'")
    assert [task.file.record_count for task in hour.plan_files()] == [1]
    assert sorted(row["offset"] for row in table.scan().to_arrow().to_pylist()) == [0, 1, 2, 3]


@pytest.mark.torture
def test_parquet_has_folders(lake: Lake, topic: str) -> None:
    fill(lake, topic)
    assert lake.run(topic, **asked(topic, "parquet", "day(timestamp), value.country")) == {}
    pattern = str(lake.path / topic / "timestamp_day=*" / "value_country=*" / "*.parquet")
    found = duckdb.sql(
        f"SELECT value_country, count(*) FROM read_parquet('{pattern}') GROUP BY 1 ORDER BY 1"
    ).fetchall()
    assert found == [("AT", 1), ("CZ", 2)]


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ("hour(value.n)", "a field of type int cannot divide"),
        ("value.nosuch", "has no field value.nosuch"),
        ("bucket(4, value)", "cannot divide a table so"),
        ("headers", "cannot divide a table so"),
    ],
)
def test_a_table_cannot_be_divided_by_what_it_lacks(lake: Lake, topic: str, spec: str, why: str) -> None:
    fill(lake, topic)
    assert why in lake.run(topic, **asked(topic, "delta", spec))[topic]
    assert not (lake.path / topic).exists()
