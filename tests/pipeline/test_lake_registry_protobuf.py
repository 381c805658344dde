"""`lake --schema TOPIC=protobuf` by a registry's schemas, as Confluent's serializer writes them; read by delta-rs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("deltalake", reason="requirements-pipeline.txt is not installed")

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from odradek import Broker
from odradek_pipeline.registry import Registry
from odradek_pipeline.schemas.framing import written_indexes
from odradek_pipeline.schemas.protobuf import Messages
from odradek_pipeline.schemas.protoc import compile_text
from tests.pipeline import readers
from tests.pipeline.lakes import Lake, create_topic, produce
from tests.pipeline.registries import guid, prefixed, register, registry_broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST = """syntax = "proto3";
import "google/protobuf/timestamp.proto";
message Order { int64 id = 1; google.protobuf.Timestamp at = 2; repeated Line lines = 3; }
message Line { string sku = 1; }
"""
SECOND = FIRST.replace("string sku = 1;", "string sku = 1; uint64 pieces = 2;").replace(
    "repeated", "optional string note = 9; repeated"
)


def message_of(text: str, name: str = "Order", **fields: Any) -> Any:
    messages = Messages(compile_text(text, {}))
    return messages.class_at(messages.indexes_of(name))(**fields)


@pytest.fixture(scope="module")
def registry_of(spark: SparkSession) -> Iterator[Broker]:
    with registry_broker() as broker:
        yield broker


@pytest.fixture
def lake(spark: SparkSession, registry_of: Broker, tmp_path: Path) -> Lake:
    return Lake(spark, registry_of.bootstrap_servers, tmp_path / "lake", Registry(registry_of.registry_urls[0]))


def read(lake: Lake, name: str) -> list[dict[str, Any]]:
    return sorted(readers.rows("delta", lake.path / name), key=lambda row: int(row["offset"]))


@pytest.mark.every_spark
def test_protobuf_by_id_grows_the_table_and_tells_what_does_not_fit(
    lake: Lake, registry_of: Broker, topic: str
) -> None:
    create_topic(lake.bootstrap, topic)
    first = register(registry_of, f"{topic}-value", FIRST, "PROTOBUF")
    one = message_of(FIRST, id=1, lines=[{"sku": "a"}])
    one.at.FromJsonString("2026-01-02T03:04:05.000006Z")
    framed = prefixed(first, b"\0" + one.SerializeToString())
    header = ("__value_schema_id", guid(registry_of, f"{topic}-value") + b"\0")
    produce(lake.bootstrap, topic, [framed, None])
    produce(lake.bootstrap, topic, [one.SerializeToString()], headers=[header])
    line = prefixed(first, written_indexes([1]) + message_of(FIRST, "Line", sku="a").SerializeToString())
    produce(lake.bootstrap, topic, [b"xyz", framed[:-1], line, prefixed(99_999, b"\0")])
    assert lake.run(topic, schemas=[f"{topic}=protobuf"]) == {}
    rows = read(lake, topic)
    assert [(row["offset"], row["schema_id"]) for row in rows] == [(0, first), (1, None), (2, first)]
    value = rows[0]["value"]
    assert (value["id"], value["at"].isoformat()) == (1, "2026-01-02T03:04:05.000006+00:00")
    assert (value["lines"], rows[1]["value"], rows[2]["value"]) == ([{"sku": "a"}], None, value)
    reasons = {row["offset"]: row["reason"] for row in read(lake, f"{topic}@dead-letters")}
    assert (reasons[3], reasons[6]) == ("no schema prefix", "schema id 99999 is unknown")
    assert reasons[4].startswith(f"does not fit schema {first}: ")
    assert reasons[5] == f"does not fit schema {first}: it is of message [1], and [0] (Order) is wanted"

    two = message_of(SECOND, id=2, note="", lines=[{"sku": "b", "pieces": 2**64 - 1}])
    client = SchemaRegistryClient({"url": registry_of.registry_urls[0]})
    written = ProtobufSerializer(type(two), client, {"use.deprecated.format": False})
    produce(lake.bootstrap, topic, [written(two, SerializationContext(topic, MessageField.VALUE)), framed])
    assert lake.run(topic, schemas=[f"{topic}=protobuf"]) == {}
    new, old = read(lake, topic)[3:]
    assert (new["value"]["id"], new["value"]["note"], new["value"]["at"]) == (2, "", None)
    assert new["value"]["lines"] == [{"sku": "b", "pieces": 2**64 - 1}]
    assert (old["value"]["note"], old["value"]["lines"]) == (None, [{"sku": "a", "pieces": None}])
    assert new["schema_id"] not in (first, None)


def test_protobuf_of_a_message_by_name_in_a_file_and_keys_by_the_latest_version(
    lake: Lake, registry_of: Broker, topic: str, tmp_path: Path
) -> None:
    create_topic(lake.bootstrap, topic)
    file = tmp_path / "order.proto"
    file.write_text(FIRST)
    register(registry_of, f"{topic}-key", 'syntax = "proto3"; message K { int32 k = 1; }', "PROTOBUF")
    line = message_of(FIRST, "Line", sku="a").SerializeToString()
    produce(lake.bootstrap, topic, [line, line + b"\x10\1", b"\xff"], key=b"\x08\7")
    given = {"schemas": [f"{topic}=protobuf:message=Line:@{file}"], "key_schemas": [f"{topic}=protobuf:latest"]}
    assert lake.run(topic, **given) == {}
    assert [(row["key"], row["value"]) for row in read(lake, topic)] == [({"k": 7}, {"sku": "a"})] * 2
    (letter,) = read(lake, f"{topic}@dead-letters")
    assert letter["reason"].startswith("does not fit the schema: ")
    assert lake.reporter.topics[topic].unknown == 1
    given["schemas"] = [f"{topic}=protobuf:message=Nothing:@{file}"]
    refused = (
        f"topic {topic}: values are of message Line in its table, and cannot be of Nothing now: give another --lake"
    )
    assert lake.run(topic, **given) == {topic: refused}
    lake.path = lake.path.with_name("other")
    assert "the schema has no column for values: the schema has no message Nothing" in lake.run(topic, **given)[topic]
