"""Fields that the schema does not name: counted, kept with `--unknown-fields`, taken in with `--infer-again`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="requirements-pipeline.txt is not installed")
pytest.importorskip("pyiceberg", reason="requirements-pipeline.txt is not installed")
pytest.importorskip("duckdb", reason="requirements-pipeline.txt is not installed")

import duckdb
import structlog

from odradek import Broker
from odradek_pipeline.registry import Registry
from tests.pipeline import readers
from tests.pipeline.lakes import Lake, create_topic, produce
from tests.pipeline.registries import prefixed, register, registry_broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMATS = pytest.mark.parametrize("table_format", ["delta", "iceberg"])
SCHEMA = "id BIGINT, a STRUCT<x: INT>, l ARRAY<STRUCT<z: INT>>, m MAP<STRING, STRUCT<q: INT>>"


@pytest.fixture
def lake(spark: SparkSession, broker: Broker, tmp_path: Path) -> Lake:
    return Lake(spark, broker.bootstrap_servers, tmp_path / "lake")


def folder(lake: Lake, warehouse: Path, table_format: str, name: str) -> Path:
    return (lake.path if table_format == "delta" else warehouse) / name


def read(lake: Lake, warehouse: Path, table_format: str, topic: str) -> list[dict[str, Any]]:
    """The table's rows in the order of the topic, by delta-rs or pyiceberg; maps as dicts."""
    rows = readers.rows(table_format, folder(lake, warehouse, table_format, topic))
    return sorted(rows, key=lambda row: int(row["offset"]))


def kept(rows: list[dict[str, Any]], column: str = "unknown_fields") -> list[dict[str, str] | None]:
    return [None if row[column] is None else dict(row[column]) for row in rows]


def uncommit(lake: Lake, topic: str, batch: int) -> None:
    """As a crash between the table and Spark's checkpoint leaves it: the batch comes again."""
    for name in (f"{batch}", f".{batch}.crc"):
        (lake.path / "@checkpoints" / topic / "records" / "0" / "commits" / name).unlink()


@FORMATS
@pytest.mark.every_spark
def test_unknown_fields_are_kept_by_place_and_counted_by_name(
    lake: Lake, topic: str, table_format: str, warehouse: Path
) -> None:
    create_topic(lake.bootstrap, topic)
    values = [
        {"id": 1, "a": {"x": 1}},
        {"id": 2, "name": "é\n", "n": 5, "f": 0.5, "b": True, "no": None, "o": {"p": [1, "q"]}, "ID": 1},
        {"a": {"x": 1, "y": {"z": 1}}, "l": [{"z": 1}, {"p": "first"}, {"p": 2}], "m": {"k": {"q": 1, "r": []}}},
        {"a.b": 1, "a": {"b": 2}},
        b'{"id": 3, "twice": 1, "twice": 2, "large": 1e99999999, "exact": 0.10}',
    ]
    produce(lake.bootstrap, topic, [*values, None, b"5", b"bad", {"id": "misfit", "x": 1}])
    given = {"table_format": table_format, "schemas": [f"{topic}=json:{SCHEMA}"], "unknown_fields": "unknown_fields"}
    assert lake.run(topic, **given) == {}
    rows = read(lake, warehouse, table_format, topic)
    found = kept(rows)
    assert found[:4] == [
        None,
        {"name": "é\n", "n": "5", "f": "0.5", "b": "true", "no": None, "o": '{"p":[1,"q"]}', "ID": "1"},
        {"a.y": '{"z":1}', "l[1].p": "first", "l[2].p": "2", "m.k.r": "[]"},
        {"a.b": "2"},
    ]
    assert found[4] is not None
    assert found[4].keys() == {"twice", "large", "exact"}
    assert (found[4]["twice"], float(found[4]["exact"])) == ("2", 0.1)
    assert found[5:] == [None]
    assert [row["value"] and row["value"]["id"] for row in rows] == [1, 2, None, None, 3, None]
    seen = lake.reporter.topics[topic]
    assert (seen.unknown, seen.dead_letters) == (4, 3)
    assert seen.fields["l.p"] == seen.fields["m.r"] == 1

    produce(lake.bootstrap, topic, [{"name": "again"}, {"other": 1}])
    assert lake.run(topic, **given) == {}
    assert (seen.fields["name"], seen.fields["other"]) == (2, 1)
    uncommit(lake, topic, 1)
    assert lake.run(topic, **given) == {}
    again = read(lake, warehouse, table_format, topic)
    assert kept(again) == [*found, {"name": "again"}, {"other": "1"}]


@FORMATS
def test_rows_by_key_keep_the_unknown_fields_of_the_newest(
    lake: Lake, topic: str, table_format: str, warehouse: Path
) -> None:
    """The column comes with the second start."""
    create_topic(lake.bootstrap, topic)
    given = {"table_format": table_format, "schemas": [f"{topic}=json:id BIGINT"], "upsert": (topic,)}
    for kept_in, values in (("", [{"id": 1, "a": 1}]), ("rest", [{"id": 2, "a": 2}, {"id": 3, "b": "x"}])):
        produce(lake.bootstrap, topic, values, key=b"k")
        assert lake.run(topic, **given, unknown_fields=kept_in) == {}
    uncommit(lake, topic, 1)
    assert lake.run(topic, **given, unknown_fields="rest") == {}
    (row,) = read(lake, warehouse, table_format, topic)
    assert (row["value"], kept([row], "rest")) == ({"id": 3}, [{"b": "x"}])


def test_parquet_keeps_unknown_fields_from_its_first_start_or_never(lake: Lake, topic: str) -> None:
    create_topic(lake.bootstrap, topic)
    produce(lake.bootstrap, topic, [{"id": 1, "more": "x"}, {"id": 2}])
    given = {"table_format": "parquet", "schemas": [f"{topic}=json:id INT"]}
    assert lake.run(topic, **given, unknown_fields="rest") == {}
    pattern = str(lake.path / topic / "date=*" / "*.parquet")
    found = duckdb.sql(f"SELECT value.id, rest['more'] FROM read_parquet('{pattern}') ORDER BY 1").fetchall()
    assert found == [(1, "x"), (2, None)]
    refused = "the columns of a Parquet table stay as they began, with --unknown-fields rest"
    assert refused in lake.run(topic, **given)[topic]


@FORMATS
def test_an_inferred_schema_takes_in_the_fields_of_newer_records(
    lake: Lake, topic: str, table_format: str, warehouse: Path
) -> None:
    create_topic(lake.bootstrap, topic)
    produce(lake.bootstrap, topic, [{"id": 1, "a": {"x": 1}}])
    given = {"table_format": table_format, "schemas": [f"{topic}=json"]}
    assert lake.run(topic, **given) == {}
    newer = {"id": 2, "a": {"x": 2, "y": "two"}, "note": "new"}
    produce(lake.bootstrap, topic, [newer])
    assert lake.run(topic, **given) == {}
    assert lake.reporter.topics[topic].fields == {"a.y": 1, "note": 1}
    uncommit(lake, topic, 1)
    produce(lake.bootstrap, topic, [newer, {"id": "text", "note": "no number"}])
    assert lake.run(topic, **given, infer_again=True) == {}
    rows = [row["value"] for row in read(lake, warehouse, table_format, topic)]
    assert rows == [
        {"id": 1, "a": {"x": 1, "y": None}, "note": None},
        {"id": 2, "a": {"x": 2, "y": None}, "note": None},  # of a batch that was planned with the earlier schema
        newer,
    ]
    letters = read(lake, warehouse, table_format, f"{topic}@dead-letters")
    assert [row["reason"] for row in letters] == ["JSON that does not fit the schema"], "a type that is there stays"
    assert lake.run(topic, **given) == {}, "what was inferred stays"


@pytest.mark.parametrize("upsert", [False, True], ids=["append", "upsert"])
def test_a_declared_field_widens_in_iceberg_and_not_in_delta(
    lake: Lake, topic: str, upsert: bool, warehouse: Path
) -> None:
    create_topic(lake.bootstrap, topic)
    for kind, value in (("INT", 1), ("BIGINT", 2**40)):
        produce(lake.bootstrap, topic, [{"id": value, "s": {"f": 1.5}}], key=b"k%d" % (value % 7))
        schema = f"{topic}=json:id {kind}, s STRUCT<f: {'FLOAT' if kind == 'INT' else 'DOUBLE'}>"
        given = {"schemas": [schema], "upsert": (topic,) if upsert else ()}
        assert lake.run(topic, **given, table_format="iceberg") == {}
    rows = readers.rows("iceberg", warehouse / topic)
    assert sorted(row["value"]["id"] for row in rows) == [1, 2**40]
    assert {str(readers.iceberg(warehouse / topic).schema().find_type(name)) for name in ("value.id", "value.s.f")} == {
        "long",
        "double",
    }
    assert "is of topic" in lake.run(topic, **given)[topic]


def test_a_json_schema_of_a_registry_keeps_what_it_does_not_name(
    spark: SparkSession, topic: str, tmp_path: Path
) -> None:
    with registry_broker() as broker:
        lake = Lake(spark, broker.bootstrap_servers, tmp_path / "lake", Registry(broker.registry_urls[0]))
        create_topic(lake.bootstrap, topic)
        shape = {"type": "object", "properties": {"id": {"type": "integer"}}}
        schema_id = register(broker, f"{topic}-value", shape, "JSON")
        produce(lake.bootstrap, topic, [prefixed(schema_id, b'{"id": 1, "more": "x"}'), None])
        assert lake.run(topic, schemas=[f"{topic}=jsonschema"], unknown_fields="rest") == {}
        assert kept(readers.rows("delta", lake.path / topic), "rest") == [{"more": "x"}, None]
        assert lake.reporter.topics[topic].fields == {"more": 1}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with structlog.testing.capture_logs():
        yield
