"""Stock clients of Confluent's registry against ours: Python's serializers of all three kinds, franz-go's, and curl."""

from __future__ import annotations

import json
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import (
    ConfigCompatibilityLevel,
    Metadata,
    MetadataProperties,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    ServerConfig,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

from odradek import Broker
from tests.brokers import sound_broker
from tests.client import other_languages

REGISTRY = {"schema.registry.listeners": "http://127.0.0.1:0"}
USER = {"type": "record", "name": "User", "namespace": "t", "fields": [{"name": "name", "type": "string"}]}
GROWN = {**USER, "fields": [*USER["fields"], {"name": "age", "type": ["null", "int"], "default": None}]}
CHANGED = {**USER, "fields": [{"name": "number", "type": "int"}]}
USER_OF_CURL = [{"name": "t.User", "subject": "curl-user", "version": 1}]
PERSON: dict[str, Any] = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Person",
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "additionalProperties": False,
}


def record(name: str, *fields: tuple[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": field, "type": kind} for field, kind in fields]}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with sound_broker(REGISTRY) as running:
        yield running


@pytest.fixture
def client(broker: Broker) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": broker.registry_urls[0]})


@pytest.fixture
def topic() -> str:
    return f"t-{uuid.uuid4().hex[:8]}"


def value_of(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def through_the_broker(broker: Broker, topic: str, content: bytes) -> bytes:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce(topic, content)
    assert producer.flush(30) == 0
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": topic, "auto.offset.reset": "earliest"}
    )
    try:
        consumer.subscribe([topic])
        message = consumer.poll(30)
        assert message is not None and message.error() is None
        found = message.value()
        assert found is not None
        return found
    finally:
        consumer.close()


def test_avro_values_come_back_with_the_schema_that_their_ids_name(
    broker: Broker, client: SchemaRegistryClient, topic: str
) -> None:
    written = AvroSerializer(client, json.dumps(USER))({"name": "Anna"}, value_of(topic))
    received = through_the_broker(broker, topic, written)
    assert AvroDeserializer(client)(received, value_of(topic)) == {"name": "Anna"}
    AvroSerializer(client, json.dumps(GROWN))({"name": "Bo", "age": 3}, value_of(topic))
    assert client.get_versions(f"{topic}-value") == [1, 2]
    with pytest.raises(SchemaRegistryError) as refused:
        AvroSerializer(client, json.dumps(CHANGED))({"number": 1}, value_of(topic))
    assert (refused.value.http_status_code, refused.value.error_code) == (409, 40901)


def test_without_auto_registration_a_schema_must_be_there(client: SchemaRegistryClient, topic: str) -> None:
    by_hand = AvroSerializer(client, json.dumps(USER), conf={"auto.register.schemas": False})
    with pytest.raises(SchemaRegistryError) as refused:
        by_hand({"name": "Anna"}, value_of(topic))
    assert refused.value.error_code == 40401
    client.register_schema(f"{topic}-value", Schema(json.dumps(USER), "AVRO"))
    assert AvroDeserializer(client)(by_hand({"name": "Anna"}, value_of(topic)), value_of(topic)) == {"name": "Anna"}


def test_the_latest_version_is_used_where_that_is_asked(client: SchemaRegistryClient, topic: str) -> None:
    for schema in (USER, GROWN):
        client.register_schema(f"{topic}-value", Schema(json.dumps(schema), "AVRO"))
    conf = {"auto.register.schemas": False, "use.latest.version": True}
    written = AvroSerializer(client, json.dumps(USER), conf=conf)({"name": "Anna", "age": 3}, value_of(topic))
    latest = client.get_latest_version(f"{topic}-value")
    assert (latest.version, int.from_bytes(written[1:5], "big")) == (2, latest.schema_id)
    assert AvroDeserializer(client)(written, value_of(topic)) == {"name": "Anna", "age": 3}


def test_avro_schemas_may_refer_to_others(client: SchemaRegistryClient, topic: str) -> None:
    client.register_schema(f"{topic}-user", Schema(json.dumps(USER), "AVRO"))
    order = {"type": "record", "name": "Order", "fields": [{"name": "by", "type": "t.User"}]}
    schema = Schema(json.dumps(order), "AVRO", [SchemaReference("t.User", f"{topic}-user", 1)])
    written = AvroSerializer(client, schema)({"by": {"name": "Anna"}}, value_of(topic))
    assert AvroDeserializer(client)(written, value_of(topic)) == {"by": {"name": "Anna"}}
    with pytest.raises(SchemaRegistryError) as refused:
        client.delete_subject(f"{topic}-user")
    assert refused.value.error_code == 42206


def test_json_values_and_their_evolution(client: SchemaRegistryClient, topic: str) -> None:
    written = JSONSerializer(json.dumps(PERSON), client)({"name": "Anna"}, value_of(topic))
    assert JSONDeserializer(json.dumps(PERSON))(written, value_of(topic)) == {"name": "Anna"}
    assert JSONDeserializer(None, schema_registry_client=client)(written, value_of(topic)) == {"name": "Anna"}
    grown = {**PERSON, "properties": {**PERSON["properties"], "age": {"type": "integer"}}}
    client.register_schema(f"{topic}-value", Schema(json.dumps(grown), "JSON"))
    opened = {**PERSON, "additionalProperties": True}
    assert not client.test_compatibility(f"{topic}-value", Schema(json.dumps({**opened, "required": ["name"]}), "JSON"))
    assert client.test_compatibility(f"{topic}-value", Schema(json.dumps({**opened, "properties": {}}), "JSON"))


def test_json_schemas_may_refer_to_others(client: SchemaRegistryClient, topic: str) -> None:
    client.register_schema(f"{topic}-person", Schema(json.dumps(PERSON), "JSON"))
    order = {"type": "object", "properties": {"by": {"$ref": "person.json"}}}
    schema = Schema(json.dumps(order), "JSON", [SchemaReference("person.json", f"{topic}-person", 1)])
    written = JSONSerializer(schema, client)({"by": {"name": "Anna"}}, value_of(topic))
    assert JSONDeserializer(None, schema_registry_client=client)(written, value_of(topic)) == {"by": {"name": "Anna"}}


@pytest.mark.parametrize("conf", [{"auto.register.schemas": False}, {"use.latest.version": True}], ids=str)
def test_json_by_hand_by_the_latest_and_a_refused_change(
    client: SchemaRegistryClient, topic: str, conf: dict[str, Any]
) -> None:
    conf = {"auto.register.schemas": False, **conf}
    with pytest.raises(SchemaRegistryError) as refused:
        JSONSerializer(json.dumps(PERSON), client, conf=conf)({"name": "Anna"}, value_of(topic))
    assert refused.value.error_code == 40401
    client.register_schema(f"{topic}-value", Schema(json.dumps(PERSON), "JSON"))
    written = JSONSerializer(json.dumps(PERSON), client, conf=conf)({"name": "Anna"}, value_of(topic))
    assert JSONDeserializer(None, schema_registry_client=client)(written, value_of(topic)) == {"name": "Anna"}
    number = {**PERSON, "properties": {"name": {"type": "integer"}}}
    with pytest.raises(SchemaRegistryError) as refused:
        JSONSerializer(json.dumps(number), client)({"name": 3}, value_of(topic))
    assert (refused.value.http_status_code, refused.value.error_code) == (409, 40901)


def message_class(package: str, *fields: tuple[str, int, int]) -> Any:
    """A Protobuf message as generated code has it, with a timestamp of Google's besides the fields."""
    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    message = file.message_type.add(name="User")
    for name, number, kind in fields:
        message.field.add(name=name, number=number, type=kind, label=1)
    message.field.add(name="at", number=15, type=11, label=1, type_name=".google.protobuf.Timestamp")
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.User"))


STRING, INT32 = 9, 5


@pytest.mark.parametrize("conf", [{}, {"auto.register.schemas": False, "use.latest.version": True}], ids=str)
def test_protobuf_values_and_their_evolution(
    broker: Broker, client: SchemaRegistryClient, topic: str, conf: dict[str, Any]
) -> None:
    user = message_class("p1", ("name", 1, STRING))
    first = ProtobufSerializer(user, client, {"use.deprecated.format": False})
    written = first(user(name="Anna"), value_of(topic))
    read = ProtobufDeserializer(user, {"use.deprecated.format": False}, client)(written, value_of(topic))
    assert read.name == "Anna"
    if conf:
        again = ProtobufSerializer(user, client, {"use.deprecated.format": False, **conf})
        assert again(user(name="Anna"), value_of(topic)) == written
    grown = message_class("p1", ("name", 1, STRING), ("age", 2, INT32))
    ProtobufSerializer(grown, client, {"use.deprecated.format": False})(grown(name="Bo", age=3), value_of(topic))
    assert client.get_versions(f"{topic}-value") == [1, 2]
    changed = message_class("p1", ("name", 1, INT32))
    with pytest.raises(SchemaRegistryError) as refused:
        ProtobufSerializer(changed, client, {"use.deprecated.format": False})(changed(name=3), value_of(topic))
    assert refused.value.error_code == 40901
    fresh = SchemaRegistryClient({"url": broker.registry_urls[0]})  # the other one has the descriptor in its cache
    assert "message User" in str(fresh.get_latest_version(f"{topic}-value").schema.schema_str)


def test_protobuf_schemas_may_refer_to_others(client: SchemaRegistryClient, topic: str) -> None:
    name = f"inner-{topic}.proto"
    inner = descriptor_pb2.FileDescriptorProto(name=name, package="shop", syntax="proto3")
    inner.message_type.add(name="Buyer").field.add(name="name", number=1, type=STRING, label=1)
    outer = descriptor_pb2.FileDescriptorProto(name=f"outer-{topic}.proto", package="shop", syntax="proto3")
    outer.dependency.append(name)
    outer.message_type.add(name="Bill").field.add(name="by", number=1, type=11, label=1, type_name=".shop.Buyer")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(inner)
    pool.Add(outer)
    bill = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Bill"))
    serialize = ProtobufSerializer(bill, client, {"use.deprecated.format": False})
    written = serialize(bill(by={"name": "Anna"}), value_of(topic))
    (reference,) = list(client.get_latest_version(f"{topic}-value").schema.references or ())
    assert (reference.name, reference.version) == (name, 1)
    read = ProtobufDeserializer(bill, {"use.deprecated.format": False}, client)(written, value_of(topic))
    assert read.by.name == "Anna"
    with pytest.raises(SchemaRegistryError) as refused:
        client.delete_subject(str(reference.subject))
    assert refused.value.error_code == 42206


def test_the_stock_client_sets_and_reads_all_that_it_has_a_method_for(broker: Broker, topic: str) -> None:
    client = SchemaRegistryClient({"url": broker.registry_urls[0]})
    mine, subject = Metadata(None, MetadataProperties({"owner": "me"}), None), f":.{topic}:s"
    schema_id = client.register_schema(subject, Schema(json.dumps(USER), "AVRO", metadata=mine))
    full = client.register_schema_full_response(subject, Schema(json.dumps(USER), "AVRO"))
    assert (full.schema_id, full.version) == (schema_id, 1)
    client.register_schema(subject, Schema(json.dumps(GROWN), "AVRO", metadata=Metadata(None, None, None)))
    found = client.get_latest_with_metadata(subject, {"owner": "me"})
    assert found.version == 1
    assert found.schema.metadata is not None and found.schema.metadata.properties == mine.properties
    assert client.lookup_schema(subject, Schema(json.dumps(USER), "AVRO", metadata=mine)).version == 1
    assert json.loads(str(client.get_schema_by_guid(str(found.guid)).schema_str)) == USER
    assert f".{topic}" in client.get_contexts()
    assert client.get_subjects(subject_prefix=f":.{topic}:") == [subject]
    assert set(client.get_schema_types()) == {"AVRO", "JSON", "PROTOBUF"}
    config = ServerConfig(compatibility=ConfigCompatibilityLevel.FULL, compatibility_group="major")
    client.set_config(subject, config)
    assert client.get_config(subject).compatibility_level == ConfigCompatibilityLevel.FULL
    assert client.get_compatibility(subject) == "FULL"
    assert client.test_compatibility_all_versions(subject, Schema(json.dumps(CHANGED), "AVRO")) is False
    assert client.delete_config(subject).compatibility_group == "major"
    assert (client.update_mode(subject, "READONLY"), client.get_mode(subject)) == ("READONLY", "READONLY")
    assert (client.delete_mode(subject), client.get_global_mode()) == ("READONLY", "READWRITE")
    assert client.update_global_mode("READWRITE") == "READWRITE"
    assert client.delete_version(subject, 1) == 1
    assert client.get_versions(subject, deleted=True) == [1, 2]
    assert (client.delete_subject(subject), client.delete_subject(subject, permanent=True)) == ([2], [1, 2])


def test_franz_gos_client_has_all_that_it_asks_for() -> None:
    command = other_languages.franz_go_registry()
    if isinstance(command, str):
        pytest.skip(command)
    with sound_broker(REGISTRY) as fresh:
        done = subprocess.run([*command, fresh.registry_urls[0]], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = dict(map(json.loads, done.stdout.splitlines()))
    assert found == {
        "avro": [1, 1],
        "again": [1, 1],
        "grown": [2, 2],
        "changed": 40901,
        "protobuf": [3, 1],
        "json": [4, 1],
        "reference": [5, 1],
        "by id": '{"type":"record","name":"U","fields":[{"name":"a","type":"int"}]}',
        "look up": 2,
        "fits": False,
        "level": "FULL",
        "mode": "READWRITE",
        "subjects": ["go-j", "go-o", "go-p", "go-value"],
        "referred to": 42206,
        "deleted": [1],
        "removed": [1],
    }


def test_kafkajs_client_writes_and_reads_all_three_kinds(broker: Broker) -> None:
    command = other_languages.kafkajs_registry()
    if isinstance(command, str):
        pytest.skip(command)
    done = subprocess.run([*command, broker.registry_urls[0]], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    found = dict(map(json.loads, done.stdout.splitlines()))
    refused = {name: found.pop(name) for name in ("avro refused", "json refused", "protobuf refused")}
    assert found == {
        "avro": [True, {"name": "Anna"}],
        "again": True,
        "latest": True,
        "earlier": True,
        "avro reference": [True, {"by": {"name": "Anna"}}],
        "json": [True, {"name": "Bo"}],
        "protobuf": [True, {"name": "Cy"}],
    }
    for status, message in refused.values():
        assert (status, "incompatible with an earlier schema" in message) == (409, True), message


def test_curl_asks_with_either_media_type(broker: Broker) -> None:
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("curl is not installed")
    url = f"{broker.registry_urls[0]}/subjects/curl-value/versions"
    body = json.dumps({"schema": '"string"'})

    def ask(*options: str) -> tuple[str, str]:
        command = [curl, "-s", "-w", "\n%{http_code} %{content_type}", *options]
        text, _, status = subprocess.run(command, capture_output=True, text=True, check=True).stdout.rpartition("\n")
        return status, text

    for kind in ("application/vnd.schemaregistry.v1+json", "application/json"):
        status, text = ask("-H", f"Content-Type: {kind}", "-d", body, url)
        assert (status, json.loads(text)["version"]) == ("200 application/vnd.schemaregistry.v1+json", 1)
    assert ask("-H", "Accept: application/json", url) == ("200 application/json", "[1]")
    assert ask("-d", body, url)[0].startswith("415 ")
    assert ask("-H", "Content-Type: application/json", "-d", "{", url)[0].startswith("400 ")
    assert ask("-X", "PATCH", url)[0].startswith("405 ")

    plain = ("-H", "Content-Type: application/json")
    grown = json.dumps({"schema": json.dumps(record("Bill", ("by", ["null", "t.User"]))), "references": USER_OF_CURL})
    users, bills = (f"{broker.registry_urls[0]}/subjects/curl-{name}/versions" for name in ("user", "bill"))
    ask(*plain, "-d", json.dumps({"schema": json.dumps(USER)}), users)
    first = json.dumps({"schema": json.dumps(record("Bill", ("by", "t.User"))), "references": USER_OF_CURL})
    assert [json.loads(ask(*plain, "-d", one, bills)[1])["version"] for one in (first, grown)] == [1, 2]
    changed = json.dumps({"schema": json.dumps(record("Bill", ("other", "int")))})
    status, text = ask(*plain, "-d", changed, bills)
    assert (status.split()[0], json.loads(text)["error_code"]) == ("409", 40901)
    assert json.loads(ask(f"{users}/1/referencedby")[1]) == [
        json.loads(ask(f"{bills}/{one}")[1])["id"] for one in (1, 2)
    ]


def test_what_was_registered_is_there_after_kill_9(broker: Broker) -> None:
    with Broker(REGISTRY) as running:
        first = SchemaRegistryClient({"url": running.registry_urls[0]})
        ids = [
            first.register_schema(f"s{at}-value", Schema(json.dumps({**USER, "name": f"U{at}"}), "AVRO"))
            for at in range(5)
        ]
        running.kill()
        running.start()
        then = SchemaRegistryClient({"url": running.registry_urls[0]})
        assert ids == [1, 2, 3, 4, 5] == [then.get_latest_version(f"s{at}-value").schema_id for at in range(5)]
        assert then.register_schema("next-value", Schema('"long"', "AVRO")) == 6
