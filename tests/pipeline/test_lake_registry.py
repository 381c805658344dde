"""`lake` with the schemas of a registry: Avro, by the id in each record; checked by other readers."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from odradek import Broker
from odradek_pipeline.registry import Registry
from tests.pipeline.lakes import Lake, create_topic, produce
from tests.pipeline.registries import avro, guid, prefixed, register, registry_broker

deltalake = pytest.importorskip("deltalake", reason="requirements-pipeline.txt is not installed")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


FIRST = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}],
}
TIME = {"type": "int", "logicalType": "time-millis"}
LINE = {"type": "record", "name": "Line", "fields": [{"name": "sku", "type": "string"}, {"name": "at", "type": TIME}]}
SECOND = {
    **FIRST,
    "fields": [
        {"name": "name", "type": ["null", "string"]},
        {"name": "id", "type": "int"},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "either", "type": ["null", "string", "long"]},
        {"name": "lines", "type": {"type": "array", "items": LINE}},
    ],
}
SECOND_VALUE: dict[str, Any] = {
    "name": None,
    "id": 7,
    "state": "PAID",
    "price": Decimal("12.50"),
    "at": datetime.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=datetime.UTC),
    "day": datetime.date(2026, 1, 2),
    "either": 5,
    "lines": [{"sku": "a", "at": datetime.time(0, 0, 1)}],
}


@pytest.fixture(scope="module")
def registry_of(spark: SparkSession) -> Iterator[Broker]:
    with registry_broker() as broker:
        yield broker


@pytest.fixture
def lake(spark: SparkSession, registry_of: Broker, tmp_path: Path) -> Lake:
    return Lake(spark, registry_of.bootstrap_servers, tmp_path / "lake", Registry(registry_of.registry_urls[0]))


def read(lake: Lake, topic: str) -> list[dict[str, Any]]:
    """The table's rows in the order of the topic, by a reader that is not Spark."""
    rows: list[dict[str, Any]] = deltalake.DeltaTable(str(lake.path / topic)).to_pyarrow_table().to_pylist()
    return sorted(rows, key=lambda row: (row["partition"], row["offset"]))


def reasons(lake: Lake, topic: str) -> dict[int, str]:
    return {row["offset"]: row["reason"] for row in read(lake, f"{topic}@dead-letters")}


@pytest.mark.every_spark
def test_avro_by_id_grows_the_table_with_each_schema_and_tells_what_does_not_fit(
    lake: Lake, registry_of: Broker, topic: str
) -> None:
    create_topic(lake.bootstrap, topic)
    first = register(registry_of, f"{topic}-value", FIRST)
    whole = avro(FIRST, {"id": 1, "name": "one"})
    produce(lake.bootstrap, topic, [prefixed(first, whole)])
    header = ("__value_schema_id", guid(registry_of, f"{topic}-value"))
    produce(lake.bootstrap, topic, [whole], headers=[("x", b""), header])
    bad = [b"xyz", prefixed(first, whole[:-1]), prefixed(first, whole + b"!"), prefixed(99_999, whole)]
    produce(lake.bootstrap, topic, [None, *bad], key=b"k")
    assert lake.run(topic, schemas=[f"{topic}=avro"]) == {}
    assert [(row["offset"], row["schema_id"], row["value"]) for row in read(lake, topic)] == [
        (0, first, {"id": 1, "name": "one"}),
        (1, first, {"id": 1, "name": "one"}),
        (2, None, None),
    ]
    misfit = f"does not fit schema {first}"
    assert reasons(lake, topic) == {3: "no schema prefix", 4: misfit, 5: misfit, 6: "schema id 99999 is unknown"}

    second = register(registry_of, f"{topic}-value", SECOND)
    produce(lake.bootstrap, topic, [prefixed(first, whole), prefixed(second, avro(SECOND, SECOND_VALUE))])
    assert lake.run(topic, schemas=[f"{topic}=avro"]) == {}
    old, new = read(lake, topic)[3:]
    lacking = dict.fromkeys(("state", "price", "at", "day", "either", "lines"))
    assert (old["schema_id"], old["value"]) == (first, {"id": 1, "name": "one"} | lacking)
    expected = SECOND_VALUE | {"either": {"member0": None, "member1": 5}, "lines": [{"sku": "a", "at": 1_000_000}]}
    assert (new["schema_id"], new["value"]) == (second, expected)
    assert lake.reporter.topics[topic].records == 9


def test_jsonschema_by_id_and_keys_by_the_latest_version(lake: Lake, registry_of: Broker, topic: str) -> None:
    create_topic(lake.bootstrap, topic)
    shape = {
        "type": "object",
        "properties": {"id": {"type": "integer"}, "name": {"type": "string"}},
        "required": ["id"],
    }
    schema_id = register(registry_of, f"{topic}-value", shape, "JSON")
    register(registry_of, f"{topic}-key", {"type": "record", "name": "K", "fields": [{"name": "k", "type": "int"}]})
    values = [prefixed(schema_id, b'{"id": 1, "name": "one"}'), prefixed(schema_id, b'{"name": "none"}')]
    produce(lake.bootstrap, topic, values, key=b"\x0e")
    schemas = [f"{topic}=jsonschema"]
    assert lake.run(topic, schemas=schemas, key_schemas=[f"{topic}=avro:latest"]) == {}
    (row,) = read(lake, topic)
    assert (row["schema_id"], row["key"], row["value"]) == (schema_id, {"k": 7}, {"id": 1, "name": "one"})
    assert reasons(lake, topic)[1].startswith(f"does not fit schema {schema_id}")


def test_a_topic_that_begins_without_a_known_schema_gets_the_columns_of_the_first_ones(
    lake: Lake, registry_of: Broker, topic: str
) -> None:
    """A tombstone, and an id that the registry gets to know before the next start."""
    create_topic(lake.bootstrap, topic)
    later, value = FIRST | {"doc": topic}, {"id": 1, "name": "one"}
    next_id = register(registry_of, f"{topic}-other", FIRST | {"doc": f"{topic}-other"}) + 1
    framed = prefixed(next_id, avro(later, value))
    produce(lake.bootstrap, topic, [None])
    produce(lake.bootstrap, topic, [framed], key=framed)
    given = {"schemas": [f"{topic}=avro"], "key_schemas": [f"{topic}=avro"]}
    assert lake.run(topic, **given) == {}
    assert reasons(lake, topic) == {1: f"schema id {next_id} is unknown"}
    assert register(registry_of, f"{topic}-value", later) == next_id
    produce(lake.bootstrap, topic, [framed], key=framed)
    assert lake.run(topic, **given) == {}
    assert [(row["key"], row["value"]) for row in read(lake, topic)] == [(None, None), (value, value)]
