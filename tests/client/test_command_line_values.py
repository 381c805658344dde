"""`odradek produce|consume --value avro` beside Confluent's Python serializers: all three kinds, in both directions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from odradek import Broker
from tests.brokers import sound_broker
from tests.command_line import NO_CONTEXTS, Odradek

USER = {"type": "record", "name": "User", "namespace": "t", "fields": [{"name": "name", "type": "string"}]}
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "by", "type": "t.User"},
        {"name": "paid", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
ORDERED = {"by": {"name": "Anna"}, "paid": "12.50", "at": "2026-01-02T03:04:05+00:00"}
PERSON = {"type": "object", "title": "P", "properties": {"name": {"type": "string"}}, "additionalProperties": False}
PROTO = """\
syntax = "proto3";
package shop;
message Other { string x = 1; }
message Order { string id = 1; int64 n = 2; }
"""


@pytest.fixture(scope="module")
def broker(own_cluster: None) -> Iterator[Broker]:
    with sound_broker({"schema.registry.listeners": "http://127.0.0.1:0"}) as running:
        yield running


@pytest.fixture
def client(broker: Broker) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": broker.registry_urls[0]})


def odradek(broker: Broker) -> Callable[..., tuple[int, str, str]]:
    environment = {**NO_CONTEXTS, "SCHEMA_REGISTRY_URL": broker.registry_urls[0]}

    def run(*arguments: str, stdin: str = "") -> tuple[int, str, str]:
        at = "" if arguments[0] == "registry" else None
        return Odradek(broker.bootstrap_servers).run(*arguments, stdin=stdin, at=at, environment=environment)

    return run


def context(
    topic: str, field: MessageField = MessageField.VALUE, headers: list[Any] | None = None
) -> SerializationContext:
    return SerializationContext(topic, field, headers)


def send(broker: Broker, topic: str, value: bytes, key: bytes | None = None, headers: Any = None) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce(topic, value, key, headers=headers)
    assert producer.flush(30) == 0


def received(broker: Broker, topic: str) -> Any:
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": topic, "auto.offset.reset": "earliest"}
    )
    try:
        consumer.subscribe([topic])
        message = consumer.poll(30)
        assert message is not None and message.error() is None
        return message
    finally:
        consumer.close()


def order_class() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file.message_type.add(name="Other").field.add(name="x", number=1, type=9, label=1)
    order = file.message_type.add(name="Order")
    order.field.add(name="id", number=1, type=9, label=1)
    order.field.add(name="n", number=2, type=3, label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def test_what_confluents_serializers_write_is_read(broker: Broker, client: SchemaRegistryClient) -> None:
    run = odradek(broker)
    key = AvroSerializer(client, '"string"')("k1", context("avro-t", MessageField.KEY))
    send(broker, "avro-t", AvroSerializer(client, json.dumps(USER))({"name": "Anna"}, context("avro-t")), key)
    status, said, _ = run("consume", "avro-t", "-e", "--value", "avro", "--key", "avro", "-f", "%k %v\\n")
    assert (status, said) == (0, '"k1" {"name": "Anna"}\n')

    send(broker, "json-t", JSONSerializer(json.dumps(PERSON), client)({"name": "Bo"}, context("json-t")))
    assert run("consume", "json-t", "-e", "--value", "jsonschema") == (0, '{"name": "Bo"}\n', "")
    assert run("consume", "json-t", "-e", "--value", "json") == (0, '{"name": "Bo"}\n', "")

    order = order_class()
    serialize = ProtobufSerializer(order, client, {"use.deprecated.format": False})
    send(broker, "proto-t", serialize(order(id="7", n=1 << 60), context("proto-t")))
    assert run("consume", "proto-t", "-e", "--value", "protobuf") == (0, f'{{"id": "7", "n": {1 << 60}}}\n', "")


def test_ids_in_headers_are_read_too(broker: Broker, client: SchemaRegistryClient) -> None:
    conf = {"schema.id.serializer": header_schema_id_serializer}
    headers: list[Any] = []
    value = AvroSerializer(client, json.dumps(USER), conf=conf)({"name": "Anna"}, context("headers-t", headers=headers))
    assert value is not None and value[0] != 0 and headers
    send(broker, "headers-t", value, headers=headers)
    status, said, error = odradek(broker)("consume", "headers-t", "-e", "--value", "avro", "--json")
    assert (status, json.loads(said)["value"]) == (0, {"name": "Anna"}), error
    assert len(json.loads(said)["value_schema"]) == 36, "a GUID"


def test_what_is_written_is_read_by_confluents_deserializers(
    broker: Broker, client: SchemaRegistryClient, tmp_path: Path
) -> None:
    run = odradek(broker)
    for name, text in (("user.avsc", json.dumps(USER)), ("order.avsc", json.dumps(ORDER)), ("shop.proto", PROTO)):
        (tmp_path / name).write_text(text)
    assert run("registry", "register", "users", f"{tmp_path}/user.avsc")[0] == 0
    assert run("registry", "register", "o-value", f"{tmp_path}/order.avsc", "-R", "t.User=users")[0] == 0
    assert run("produce", "o", "--create", "--value", "avro", json.dumps(ORDERED))[0] == 0
    found = AvroDeserializer(client)(received(broker, "o").value(), context("o"))
    assert found["by"] == {"name": "Anna"} and str(found["paid"]) == "12.50" and found["at"].year == 2026
    status, said, _ = run("consume", "o", "-e", "--value", "avro")
    assert (status, json.loads(said)) == (0, ORDERED)

    client.register_schema("j-value", Schema(json.dumps(PERSON), "JSON"))
    assert run("produce", "j", "--create", "--value", "jsonschema", '{"name": "Bo"}')[0] == 0
    assert JSONDeserializer(json.dumps(PERSON))(received(broker, "j").value(), context("j")) == {"name": "Bo"}
    status, _, error = run("produce", "j", "--value", "jsonschema", '{"age": 1}')
    assert status == 1 and "does not fit the schema" in error

    assert run("registry", "register", "p-value", f"{tmp_path}/shop.proto")[0] == 0
    assert run("produce", "p", "--create", "--value", "protobuf:message=Order", '{"id": "7", "n": 5}')[0] == 0
    deserialize = ProtobufDeserializer(order_class(), {"use.deprecated.format": False})
    message = deserialize(received(broker, "p").value(), context("p"))
    assert (message.id, message.n) == ("7", 5)


def test_records_go_from_one_topic_to_another_as_json(broker: Broker, client: SchemaRegistryClient) -> None:
    run = odradek(broker)
    client.register_schema("from-value", Schema(json.dumps(USER), "AVRO"))
    assert run("produce", "from", "--create", "--value", "avro", '{"name": "Anna"}', '{"name": "é"}')[0] == 0
    lines = run("consume", "from", "-e", "--value", "avro", "--json")[1]
    assert run("produce", "to", "--create", "-f", "json", "--value", "avro:subject=from-value", stdin=lines)[0] == 0
    assert run("consume", "to", "-e", "--value", "avro") == (0, '{"name": "Anna"}\n{"name": "é"}\n', "")


def test_a_group_reads_again_what_no_registry_could_tell(broker: Broker, client: SchemaRegistryClient) -> None:
    run = odradek(broker)
    client.register_schema("again-value", Schema(json.dumps(USER), "AVRO"))
    run("produce", "again", "--create", "--value", "avro", '{"name": "Anna"}')
    read = ("consume", "again", "-e", "-g", "readers", "--value", "avro")
    status, said, error = run(*read, "-r", "http://127.0.0.1:1")
    assert (status, said) == (1, "") and "no schema registry answers: http://127.0.0.1:1: Connection refused" in error
    assert run(*read)[1] == '{"name": "Anna"}\n'
