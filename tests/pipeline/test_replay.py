"""`replay` on local Spark against a broker: what arrives, job by job, and what is refused."""

from __future__ import annotations

import base64
import contextlib
import csv
import dataclasses
import json
import os
import random
import threading
import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource
from kafka.partitioner.default import murmur2

pytest.importorskip("pyspark", reason="requirements-pipeline.txt is not installed")

from odradek import Broker
from odradek_pipeline import session
from odradek_pipeline.replay import source as source_module
from odradek_pipeline.replay.job import Replay, Totals, replay
from odradek_pipeline.replay.progress import ReplayFailed, ReplayRefused
from odradek_pipeline.replay.source import Source
from tests.pipeline.replays import by_key, committed, expected, job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = "k STRING, n BIGINT, v STRING"


def shuffled(count: int, keys: int = 17) -> list[dict[str, Any]]:
    """Rows {k, n, v}; `n` is different in each, and orders them."""
    rows = [{"k": f"key-{n % keys}", "n": n, "v": f"value {n}"} for n in range(count)]
    random.Random(count).shuffle(rows)
    return rows


def json_files(folder: Path, rows: Sequence[dict[str, Any]], files: int = 3) -> Source:
    folder.mkdir()
    for index in range(files):
        lines = [json.dumps(row) + "\n" for row in rows[index::files]]
        (folder / f"{index}.json").write_text("".join(lines))
    return Source(str(folder), "json", COLUMNS)


def csv_file(spark: SparkSession, folder: Path, rows: Sequence[dict[str, Any]]) -> Source:
    folder.mkdir()
    with (folder / "rows.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["k", "n", "v"])
        writer.writeheader()
        writer.writerows(rows)
    return Source(str(folder), "csv", COLUMNS, {"header": "true"})


def table(table_format: str) -> Callable[[SparkSession, Path, Sequence[dict[str, Any]]], Source]:
    def write(spark: SparkSession, folder: Path, rows: Sequence[dict[str, Any]]) -> Source:
        frame = spark.createDataFrame([tuple(row.values()) for row in rows], COLUMNS)
        frame.repartition(2).write.format(table_format).save(str(folder))
        return Source(str(folder), table_format)

    return write


def iceberg(spark: SparkSession, folder: Path, rows: Sequence[dict[str, Any]]) -> Source:
    name = uuid.uuid4().hex
    frame = spark.createDataFrame([tuple(row.values()) for row in rows], COLUMNS)
    frame.repartition(2).writeTo(f"{session.ICEBERG_CATALOG}.replay.t{name}").create()
    warehouse = spark.conf.get(f"spark.sql.catalog.{session.ICEBERG_CATALOG}.warehouse")
    return Source(f"{warehouse}/replay/t{name}", "iceberg")


INPUTS: dict[str, Callable[[SparkSession, Path, Sequence[dict[str, Any]]], Source]] = {
    "json": lambda _, folder, rows: json_files(folder, rows),
    "csv": csv_file,
    "parquet": table("parquet"),
    "delta": table("delta"),
    "iceberg": iceberg,
}


TORTURE_INPUTS = ("csv", "delta")
"""What differs from others in how it is read alone, which other tests show too."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.torture if name in TORTURE_INPUTS else ()) for name in INPUTS]
)
def test_each_row_once_in_order_of_its_key(
    name: str, spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    rows = shuffled(1_000)
    source = INPUTS[name](spark, tmp_path / "in", rows)
    asked = job(broker.bootstrap_servers, topic, source, value_column="v", order_by=("n",))
    size = sum(len(row["k"] + row["v"]) for row in rows)
    assert replay(spark, asked) == Totals(rows=1_000, size=size, rows_before=0, tasks=3)
    messages = committed(broker.bootstrap_servers, topic)
    assert by_key(messages) == expected(rows)
    # Kafka's choice of the partition, by another implementation of it.
    assert {(one.key(), one.partition()) for one in messages} == {
        (key, (murmur2(key) & 0x7FFFFFFF) % 3) for key in expected(rows)
    }
    # A finished job has nothing to do.
    assert replay(spark, asked) == Totals(rows=1_000, size=size, rows_before=1_000, tasks=3)
    assert len(committed(broker.bootstrap_servers, topic)) == 1_000


def test_columns_become_parts_of_records(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path) -> None:
    """Keys and values that are null or empty, headers, times, topics by row, and the other columns as JSON."""
    at = datetime(2024, 2, 29, 12, 30, 1, 234_567, UTC)
    frame = spark.createDataFrame(
        [
            (1, b"", b"empty key", None, at, topic),
            (2, b"deleted", None, [("a", b"1"), ("a", None)], at, topic),
            (3, None, b"no key", [], at, topic),
            (4, b"empty value", b"", [("b", b"")], None, topic + "-b"),
        ],
        "n INT, k BINARY, v BINARY, h ARRAY<STRUCT<key: STRING, value: BINARY>>, at TIMESTAMP, t STRING",
    )
    frame.write.parquet(str(tmp_path / "in"))
    columns: dict[str, Any] = {"topic": None, "topic_column": "t", "headers_column": "h", "timestamp_column": "at"}
    source = Source(str(tmp_path / "in"), "parquet")
    bootstrap = broker.bootstrap_servers
    asked = job(bootstrap, topic, source, value_column="v", **columns)
    began = datetime.now(UTC)
    assert replay(spark, asked).rows == 4
    messages = committed(bootstrap, topic) + committed(bootstrap, topic + "-b")
    found = {(one.topic(), one.key(), one.value(), tuple(one.headers() or ())) for one in messages}
    assert found == {
        (topic, b"", b"empty key", ()),
        (topic, b"deleted", None, (("a", b"1"), ("a", None))),
        (topic, None, b"no key", ()),
        (topic + "-b", b"empty value", b"", (("b", b""),)),
    }
    times = {one.value(): one.timestamp()[1] for one in messages}
    assert times[b"empty key"] == int(at.timestamp() * 1000)
    assert times[b""] >= int(began.timestamp() * 1000)

    as_json = job(bootstrap, topic + "-c", source, key_column=None, key_expression="n % 2", headers_column="h")
    assert replay(spark, as_json).rows == 4
    values = [(one.key(), json.loads(one.value() or b"")) for one in committed(bootstrap, topic + "-c")]
    assert sorted((key, value["n"]) for key, value in values) == [(b"0", 2), (b"0", 4), (b"1", 1), (b"1", 3)]
    encoded = base64.b64encode(b"no key").decode()
    assert (b"1", {"n": 3, "v": encoded, "at": "2024-02-29T12:30:01.234567Z", "t": topic}) in values


def test_columns_of_any_name(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path) -> None:
    spark.sql("SELECT 1 AS `the.key`, 2 AS `a``b`, 3 AS `c.d`").write.parquet(str(tmp_path / "in"))
    source = Source(str(tmp_path / "in"), "parquet")
    assert replay(spark, job(broker.bootstrap_servers, topic, source, key_column="`the.key`")).rows == 1
    [record] = committed(broker.bootstrap_servers, topic)
    assert (record.key(), json.loads(record.value() or b"")) == (b"1", {"a`b": 2, "c.d": 3})


def test_an_empty_source_is_a_finished_job(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path) -> None:
    spark.createDataFrame([], COLUMNS).write.parquet(str(tmp_path / "in"))
    asked = job(broker.bootstrap_servers, topic, Source(str(tmp_path / "in"), "parquet"))
    assert replay(spark, asked) == Totals(rows=0, size=0, rows_before=0, tasks=3)
    assert committed(broker.bootstrap_servers, topic) == []


def test_a_topic_gets_its_configuration_when_it_is_created(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    spark.createDataFrame([], COLUMNS).write.parquet(str(tmp_path / "in"))
    asked = job(broker.bootstrap_servers, topic, Source(str(tmp_path / "in"), "parquet"))
    replay(spark, dataclasses.replace(asked, topic_config={"retention.ms": "86400000"}))
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    resource = ConfigResource("topic", topic)
    assert admin.describe_configs([resource])[resource].result(30)["retention.ms"].value == "86400000"


def test_an_iceberg_table_without_a_version_is_refused(spark: SparkSession) -> None:
    name = f"{session.ICEBERG_CATALOG}.replay.t{uuid.uuid4().hex}"
    spark.sql(f"CREATE TABLE {name} ({COLUMNS}) USING iceberg")
    with pytest.raises(ReplayRefused, match="no snapshot yet"):
        source_module.open_source(spark, Source(name, "iceberg"), None)


def test_a_failed_job_goes_on(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path) -> None:
    """A record that the producer takes for too large fails the job in the middle."""
    rows = shuffled(900, keys=4)
    large = next(row for row in rows if row["n"] == 450)
    large["v"] = "x" * 5_000
    asked = job(
        broker.bootstrap_servers,
        topic,
        json_files(tmp_path / "in", rows),
        rows=20,
        value_column="v",
        order_by=("n",),
    )
    with pytest.raises(ReplayFailed, match="MSG_SIZE_TOO_LARGE"):
        replay(spark, dataclasses.replace(asked, producer={"message.max.bytes": "4000"}))
    before = by_key(committed(broker.bootstrap_servers, topic))
    whole = expected(rows)
    written = sum(map(len, before.values()))
    assert 0 < written < 900
    assert all(values == whole[key or b""][: len(values)] for key, values in before.items())
    totals = replay(spark, dataclasses.replace(asked, tasks=None))
    assert totals.rows == 900
    assert written <= totals.rows_before < 900  # the task that did not fail may have ended a transaction meanwhile
    assert by_key(committed(broker.bootstrap_servers, topic)) == whole


def test_a_table_is_read_as_it_was_at_the_first_start(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    rows = [*shuffled(300), {"k": "large", "n": 300, "v": "x" * 2_000}]
    source = table("delta")(spark, tmp_path / "in", rows)
    asked = job(broker.bootstrap_servers, topic, source, value_column="v", order_by=("n",))
    with pytest.raises(ReplayFailed):
        replay(spark, dataclasses.replace(asked, producer={"message.max.bytes": "1000"}))
    spark.createDataFrame([("later", -1, "later")], COLUMNS).write.format("delta").mode("append").save(source.path)
    assert replay(spark, asked).rows == 301
    assert by_key(committed(broker.bootstrap_servers, topic)) == expected(rows)


def test_a_table_at_a_relative_path(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path) -> None:
    source = table("delta")(spark, tmp_path / "in", shuffled(30))
    here = dataclasses.replace(source, path=os.path.relpath(source.path))
    assert replay(spark, job(broker.bootstrap_servers, topic, here)).rows == 30


def test_a_line_that_cannot_be_read_is_never_a_null(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    source = json_files(tmp_path / "in", shuffled(30))
    with (tmp_path / "in" / "1.json").open("a") as file:
        file.write('{"k": "cut sho\n')
    with pytest.raises(ReplayFailed, match="MALFORMED_RECORD"):
        replay(spark, job(broker.bootstrap_servers, topic, source))
    assert committed(broker.bootstrap_servers, topic) == []


@pytest.mark.parametrize("value_column", ["v", None])
def test_a_header_that_has_other_columns_than_the_schema_is_an_error(
    value_column: str | None, spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    csv_file(spark, tmp_path / "in", shuffled(3))
    source = Source(str(tmp_path / "in"), "csv", "v STRING, n BIGINT, k STRING", {"header": "true"})
    with pytest.raises(ReplayFailed, match="CSV header does not conform to the schema"):
        replay(spark, job(broker.bootstrap_servers, topic, source, value_column=value_column))
    assert committed(broker.bootstrap_servers, topic) == []


def test_two_at_the_same_time_double_nothing(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path) -> None:
    rows = shuffled(3_000)
    source = json_files(tmp_path / "in", rows)
    asked = job(broker.bootstrap_servers, topic, source, rows=50, value_column="v", order_by=("n",))

    def attempt() -> None:
        with contextlib.suppress(ReplayFailed):
            replay(spark, asked)

    threads = [threading.Thread(target=attempt) for _ in range(2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert replay(spark, asked).rows == 3_000
    assert by_key(committed(broker.bootstrap_servers, topic)) == expected(rows)


@pytest.fixture(scope="module")
def finished(spark: SparkSession, broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Replay:
    """A job that wrote thirty rows."""
    source = json_files(tmp_path_factory.mktemp("finished") / "in", shuffled(30))
    asked = job(broker.bootstrap_servers, "finished", source, value_column="v")
    replay(spark, asked)
    return asked


def changed(asked: Replay, **recipe: Any) -> Replay:
    return dataclasses.replace(asked, recipe=dataclasses.replace(asked.recipe, **recipe))


REFUSED: dict[str, tuple[Callable[[Replay], Replay], str]] = {
    "other tasks": (lambda asked: dataclasses.replace(asked, tasks=2), "has 3 tasks, not 2: leave --tasks away"),
    "another order": (lambda asked: changed(asked, order_by=("n",)), r"order_by: \[\], now \['n'\]"),
    "other options": (
        lambda asked: dataclasses.replace(
            asked, source=dataclasses.replace(asked.source, options={"mode": "PERMISSIVE"})
        ),
        "option mode: 'FAILFAST', now 'PERMISSIVE'",
    ),
    "no such column": (lambda asked: changed(asked, key_column="gone"), "the columns do not fit the source: .*gone"),
    "not deterministic": (
        lambda asked: changed(asked, key_column=None, key_expression="uuid()"),
        "an expression that is not deterministic",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_not_be_exact_is_refused(name: str, finished: Replay, spark: SparkSession) -> None:
    change, message = REFUSED[name]
    with pytest.raises(ReplayRefused, match=message):
        replay(spark, change(finished))


def test_changed_files_are_refused(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path) -> None:
    source = json_files(tmp_path / "in", shuffled(30))
    asked = job(broker.bootstrap_servers, topic, source)
    replay(spark, asked)
    (tmp_path / "in" / "more.json").write_text('{"k": "a", "n": -1, "v": ""}\n')
    with pytest.raises(ReplayRefused, match=r"(?s)began with something else.*files: 3, now 4.*delete the topic"):
        replay(spark, asked)
    assert len(committed(broker.bootstrap_servers, topic)) == 30


def test_files_that_change_while_they_are_listed_are_refused(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What Spark has not listed would never be written, and the next start would find nothing to do."""
    asked = job(broker.bootstrap_servers, topic, json_files(tmp_path / "in", shuffled(30)))
    listed = source_module._files

    def listed_and_more(*given: Any) -> dict[str, Any]:
        found = listed(*given)
        (tmp_path / "in" / "more.json").write_text('{"k": "a", "n": -1, "v": ""}\n')
        return found

    monkeypatch.setattr(source_module, "_files", listed_and_more)
    with pytest.raises(ReplayRefused, match="changed while they were listed"):
        replay(spark, asked)
    monkeypatch.undo()
    assert replay(spark, asked).rows == 31
