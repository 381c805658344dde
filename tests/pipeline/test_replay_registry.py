"""`replay --value-format`: rows of a table with a schema of a registry, read back by Confluent's own deserializers."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="requirements-pipeline.txt is not installed")

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from odradek import Broker
from odradek_pipeline.registry import Registry
from odradek_pipeline.replay.encoding import ValueFormat
from odradek_pipeline.replay.job import Replay, replay
from odradek_pipeline.replay.progress import ReplayFailed
from odradek_pipeline.replay.source import Source
from odradek_pipeline.schemas.framing import id_of
from odradek_pipeline.schemas.lookup import AVRO, JSON, PROTOBUF
from odradek_pipeline.schemas.protobuf import Messages
from odradek_pipeline.schemas.protoc import compile_text
from tests.pipeline.lakes import set_topic_config
from tests.pipeline.registries import ask, register, registry_broker
from tests.pipeline.replays import committed, job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = (
    "k STRING, id BIGINT, price DECIMAL(9,2), at TIMESTAMP, line STRUCT<sku: STRING, pieces: INT>, tags ARRAY<STRING>"
)
AT = datetime.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=datetime.UTC)
ROWS = [
    ("a", 1, Decimal("12.50"), AT, ("x", 2), ["t", "u"]),
    ("b", 2, None, None, None, []),
]


@pytest.fixture(scope="module")
def registry_of(spark: SparkSession) -> Iterator[Broker]:
    with registry_broker() as broker:
        yield broker


def table(spark: SparkSession, folder: Path) -> Source:
    spark.createDataFrame(ROWS, COLUMNS).write.format("delta").save(str(folder))
    return Source(str(folder), "delta")


def with_schema(broker: Broker, name: str, source: Source, kind: str, **rest: Any) -> Replay:
    registry = Registry(broker.registry_urls[0])
    made = ValueFormat(registry, kind, f"{name}-value", **rest)
    return dataclasses.replace(job(broker.bootstrap_servers, name, source), value_format=made)


def read(broker: Broker, topic: str, deserializer: Callable[..., Any]) -> dict[bytes | None, Any]:
    """The values by key, as a stock client has them."""
    context = SerializationContext(topic, MessageField.VALUE)
    return {found.key(): deserializer(found.value(), context) for found in committed(broker.bootstrap_servers, topic)}


@pytest.mark.every_spark
def test_rows_with_an_avro_schema_made_of_the_columns(
    spark: SparkSession, registry_of: Broker, topic: str, tmp_path: Path
) -> None:
    source = table(spark, tmp_path / "in")
    assert replay(spark, with_schema(registry_of, topic, source, AVRO, register=True)).rows == 2
    client = SchemaRegistryClient({"url": registry_of.registry_urls[0]})
    line = {"sku": "x", "pieces": 2}
    assert read(registry_of, topic, AvroDeserializer(client)) == {
        b"a": {"id": 1, "price": Decimal("12.50"), "at": AT, "line": line, "tags": ["t", "u"]},
        b"b": {"id": 2, "price": None, "at": None, "line": None, "tags": []},
    }
    assert ask(registry_of, f"/subjects/{topic}-value/versions") == [1]


def test_rows_with_the_latest_json_schema_of_a_subject(
    spark: SparkSession, registry_of: Broker, topic: str, tmp_path: Path
) -> None:
    shape = {
        "type": "object",
        "properties": {"id": {"type": "integer"}, "price": {"type": "number"}, "at": {"type": "string"}},
        "required": ["id"],
    }
    register(registry_of, f"{topic}-value", shape, "JSON")
    assert replay(spark, with_schema(registry_of, topic, table(spark, tmp_path / "in"), JSON)).rows == 2
    client = SchemaRegistryClient({"url": registry_of.registry_urls[0]})
    found = read(registry_of, topic, JSONDeserializer(None, schema_registry_client=client))
    assert found[b"a"] == {
        **{"id": 1, "price": 12.5, "at": "2026-01-02T03:04:05.000006+00:00"},
        **{"line": {"sku": "x", "pieces": 2}, "tags": ["t", "u"]},
    }
    assert found[b"b"] == {"id": 2, "tags": []}


def test_rows_with_a_protobuf_schema_in_a_file(
    spark: SparkSession, registry_of: Broker, topic: str, tmp_path: Path
) -> None:
    text = """syntax = "proto3";
import "google/protobuf/timestamp.proto";
message Order {
  int64 id = 1; string price = 2; google.protobuf.Timestamp at = 3; Line line = 4; repeated string tags = 5;
}
message Line { string sku = 1; int32 pieces = 2; }
"""
    (tmp_path / "order.proto").write_text(text)
    wanted = with_schema(
        registry_of,
        topic,
        table(spark, tmp_path / "in"),
        PROTOBUF,
        register=True,
        file=str(tmp_path / "order.proto"),
    )
    assert replay(spark, wanted).rows == 2
    kind = Messages(compile_text(text, {})).class_at([0])
    found = read(registry_of, topic, ProtobufDeserializer(kind, {"use.deprecated.format": False}))
    first = found[b"a"]
    assert (first.id, first.price, first.at.ToMicroseconds(), first.line.pieces) == (1, "12.50", 1767323045000006, 2)
    assert not found[b"b"].HasField("line")


def test_a_row_that_does_not_fit_is_told_before_any_is_written(
    spark: SparkSession, registry_of: Broker, topic: str, tmp_path: Path
) -> None:
    fields = [{"name": "id", "type": "long"}, {"name": "price", "type": "bytes"}]
    register(registry_of, f"{topic}-value", {"type": "record", "name": "R", "fields": fields})
    source = table(spark, tmp_path / "in")
    with pytest.raises(ReplayFailed, match=r"a row does not fit schema \d+: does not fit the schema: "):
        replay(spark, with_schema(registry_of, topic, source, AVRO))
    assert committed(registry_of.bootstrap_servers, topic) == []


def test_a_job_that_goes_on_keeps_the_schema_that_it_began_with(
    spark: SparkSession, registry_of: Broker, topic: str, tmp_path: Path
) -> None:
    spark.range(1, 40).selectExpr("string(id) k", "id", "repeat('x', int(id) * 10) text").write.format("delta").save(
        str(tmp_path / "in")
    )
    wanted = with_schema(registry_of, topic, Source(str(tmp_path / "in"), "delta"), AVRO, register=True)
    wanted = dataclasses.replace(
        wanted, topic_config={"max.message.bytes": "330"}, limits=dataclasses.replace(wanted.limits, rows=1)
    )
    with pytest.raises(ReplayFailed, match=r"MSG_SIZE_TOO_LARGE|too large"):
        replay(spark, wanted)
    before = committed(registry_of.bootstrap_servers, topic)
    fields = [{"name": name, "type": "string", "default": ""} for name in ("id", "text", "more")]
    register(registry_of, f"{topic}-value", {"type": "record", "name": "Value", "fields": fields})
    set_topic_config(registry_of.bootstrap_servers, topic, "max.message.bytes", "1000000")
    assert wanted.value_format is not None
    by_latest = dataclasses.replace(wanted.value_format, register=False)
    assert replay(spark, dataclasses.replace(wanted, value_format=by_latest)).rows == 39
    found = committed(registry_of.bootstrap_servers, topic)
    assert len(before) < len(found) == 39
    assert len({id_of(message.value()) for message in found}) == 1
