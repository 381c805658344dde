"""`odradek.registry`: a test's schemas beside stock serializers, and a registry that fails when the test says so."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer

from odradek import Broker, Cluster, ControlError, Record, WaitTimeoutError
from odradek.controls import RemoteBroker
from odradek.faults import Drop
from tests.client.test_registry import STRING, message_class, value_of

ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
    ],
}
GROWN = {**ORDER, "fields": [*ORDER["fields"], {"name": "by", "type": "string", "default": ""}]}
CHANGED = {**ORDER, "fields": [{"name": "number", "type": "int"}]}
NOTICE = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "required": ["text"]}
PROTO = 'syntax = "proto3"; package p1; message Other { int64 n = 1; } message User { string name = 1; }'


@pytest.fixture(scope="module")
def running() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker
        assert "Traceback" not in broker.log(), broker.log()


@pytest.fixture
def broker(running: Broker) -> Iterator[Broker]:
    """The broker, clean after each test."""
    mark = running.mark()
    yield running
    running.clear_faults()
    running.reset(mark)


def client_of(broker: Broker, **conf: Any) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": broker.registry.url, **conf})


def send(broker: Broker, topic: str, value: bytes | None, key: bytes | None = None) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce(topic, value, key=key)
    assert producer.flush(30) == 0


def received(broker: Broker, topic: str) -> bytes:
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "readers", "auto.offset.reset": "earliest"}
    )
    try:
        consumer.subscribe([topic])
        message = consumer.poll(30)
        assert message is not None and message.error() is None
        value = message.value()
        assert value is not None
        return value
    finally:
        consumer.close()


# -- records


def test_avro_goes_from_the_kit_to_a_stock_client_and_back(broker: Broker, tmp_path: Path) -> None:
    file = tmp_path / "orders.avsc"
    file.write_text(json.dumps(ORDER))
    schema_id = broker.registry.register("orders", file)
    orders = broker.topic("orders")
    written = orders.produce({"id": 7, "price": Decimal("2.50")}, schema=schema_id)
    client = client_of(broker)
    assert AvroDeserializer(client)(received(broker, "orders"), value_of("orders")) == {
        "id": 7,
        "price": Decimal("2.50"),
    }
    send(
        broker,
        "orders",
        AvroSerializer(client, json.dumps(GROWN))({"id": 8, "price": Decimal(1), "by": "a"}, value_of("orders")),
    )
    found = orders.expect({"id": 8, "by": "a"})
    assert (written.decoded, found.decoded) == ({"id": 7, "price": "2.50"}, {"id": 8, "price": "1.00", "by": "a"})
    assert found.schema is not None and written.schema is not None
    assert (written.schema.id, found.schema.id, found.schema.type) == (schema_id, schema_id + 1, "AVRO")
    assert broker.registry.versions("orders") == [1, 2]
    with pytest.raises(WaitTimeoutError, match=r"value\.id: expected 9, is [78]"):
        orders.expect({"id": 9}, timeout=0)


def test_protobuf_and_json_go_from_the_kit_to_a_stock_client_and_back(broker: Broker) -> None:
    client, people, notices = client_of(broker), broker.topic("people"), broker.topic("notices")
    people.produce({"name": "Anna"}, schema=PROTO, message="User")
    user = message_class("p1", ("name", 1, STRING))
    conf = {"use.deprecated.format": False}
    read = ProtobufDeserializer(user, conf, client)(received(broker, "people"), value_of("people"))
    assert read.name == "Anna"
    send(broker, "people2", ProtobufSerializer(user, client, conf)(user(name="Bo"), value_of("people2")))
    assert broker.topic("people2").expect({"name": "Bo"}).decoded == {"name": "Bo"}
    notices.produce({"text": "hello"}, schema=NOTICE)
    got = JSONDeserializer(None, schema_registry_client=client)(received(broker, "notices"), value_of("notices"))
    assert got == {"text": "hello"} == notices.expect({"text": "hello"}).decoded
    with pytest.raises(ControlError, match="'text' is a required property"):
        notices.produce({"txt": ""}, schema="latest")


def test_keys_have_schemas_too_and_a_tombstone_needs_none(broker: Broker) -> None:
    orders = broker.topic("orders")
    orders.produce_many(
        [{"value": {"id": 1, "price": 2}, "key": {"id": 1, "price": 0}}], schema=ORDER, key_schema=ORDER
    )
    orders.produce(None, key={"id": 1, "price": 0}, schema="latest", key_schema="latest")
    found = orders.expect(None, key={"id": 1})
    assert (found.decoded_key["id"], found.value) == (1, None)
    assert broker.registry.subjects() == ["orders-key", "orders-value"]


async def test_a_decoded_record_is_waited_for_beside_tasks(broker: Broker) -> None:
    orders = broker.topic("orders")
    broker.registry.register("orders", ORDER)
    waiting = asyncio.ensure_future(orders.expect_async({"id": 7}, timeout=30))
    orders.produce({"id": 7, "price": 1}, schema="latest")
    record = await waiting
    assert isinstance(record, Record)
    assert record.decoded["price"] == "1.00"


def test_exactly_once_goes_by_a_decoded_field(broker: Broker) -> None:
    source, sink = broker.topic("source"), broker.topic("sink")
    source.produce({"id": 7, "price": 1}, schema=ORDER)
    sink.produce({"id": 7})
    broker.assert_exactly_once(source, sink, key="value.id", timeout=5)


# -- the registry


def test_subjects_levels_and_deletions_by_the_names_of_topics(broker: Broker) -> None:
    registry = broker.registry
    registry.register("orders", ORDER)
    assert registry.register("orders", ORDER) == registry.get("orders")["id"]
    with pytest.raises(ControlError, match=r"READER_FIELD_MISSING_DEFAULT_VALUE.*\(40901\)"):
        registry.register("orders", CHANGED)
    assert registry.check("orders", GROWN) == []
    assert any("number" in why for why in registry.check("orders", CHANGED))
    registry.set_compatibility("NONE", "orders")
    registry.register("orders", CHANGED)
    assert (registry.compatibility("orders"), registry.versions("orders")) == ("NONE", [1, 2])
    assert json.loads(registry.schema(registry.get("orders", 2)["id"])["schema"]) == CHANGED
    user = registry.register("users", {"type": "record", "name": "U", "fields": []})
    refers = {"type": "record", "name": "B", "fields": [{"name": "by", "type": "U"}]}
    assert registry.register("bills", refers, references={"U": "users-value"}) > user
    with pytest.raises(ControlError, match="42206"):
        registry.delete("users", permanent=True)
    assert registry.delete("bills", 1) == [1]
    assert registry.delete("orders", permanent=True) == [1, 2]
    assert registry.subjects() == ["users-value"]


def test_schemas_go_with_a_reset_and_stay_over_kill_9(broker: Broker) -> None:
    registry, mark = broker.registry, broker.mark()
    url, first = registry.url, registry.register("orders", ORDER)
    broker.kill()
    broker.start()
    assert broker.registry.url == url == broker.registry_urls[0]
    assert client_of(broker).get_latest_version("orders-value").schema_id == first
    broker.reset(mark)
    assert broker.registry.subjects() == []


def test_a_snapshot_has_the_schemas_of_its_moment(broker: Broker) -> None:
    broker.registry.register("orders", ORDER)
    broker.topic("orders").produce({"id": 7, "price": 1}, schema="latest")
    snapshot = broker.snapshot()
    broker.registry.register("other", '"int"')
    broker.restore(snapshot)
    assert client_of(broker).get_subjects() == ["orders-value"]
    assert broker.topic("orders").expect({"id": 7}).decoded["price"] == "1.00"


def test_another_process_has_the_registry_by_the_control_interface(broker: Broker) -> None:
    remote = RemoteBroker(broker.bootstrap_servers, broker.control.url)
    remote.registry.register("orders", ORDER)
    assert remote.registry.url == broker.registry.url

    def post(path: str, **body: Any) -> Any:
        request = urllib.request.Request(f"{broker.control.url}/control{path}", json.dumps(body).encode())
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    assert post("/registry")["url"] == broker.registry.url
    post("/topics", topic="orders")
    post("/topics/orders/records", records=[{"json": {"id": 7, "price": "1.00"}}])
    (found,) = post("/topics/orders/wait", json={"id": 7}, timeout=5)["records"]
    assert (found["json"], found["schema"]["type"]) == ({"id": 7, "price": "1.00"}, "AVRO")
    with pytest.raises(urllib.error.HTTPError) as refused:
        post("/registry/subjects/orders-value", schema=json.dumps(CHANGED))
    assert (refused.value.code, "40901" in json.load(refused.value)["error"]) == (409, True)


def test_a_registry_at_all_addresses_is_told_with_the_host_of_the_broker() -> None:
    with Broker(settings={"schema.registry.listeners": "http://0.0.0.0:0"}) as broker:
        urls = broker.registry_urls
        told = broker.registry.url
        assert urls == [told.replace("127.0.0.1", "0.0.0.0")] != [told]
        client_of(broker).get_subjects()
        broker.restart()
        assert broker.registry_urls == urls  # it listens at all of them again


def test_users_are_asked_for_their_passwords_and_the_kit_is_not() -> None:
    with Broker(security="SASL_PLAINTEXT", users={"app": "pw"}) as broker:
        broker.registry.register("orders", ORDER)
        with pytest.raises(SchemaRegistryError) as refused:
            client_of(broker).get_subjects()
        assert refused.value.http_status_code == 401
        known = client_of(broker, **{"basic.auth.user.info": "app:pw"})
        assert known.get_subjects() == ["orders-value"]
        assert "Traceback" not in broker.log(), broker.log()


# -- faults

ONCE = {"max.retries": 0}


def test_a_registration_fails_with_the_error_that_the_test_says(broker: Broker) -> None:
    client = client_of(broker, **ONCE)
    schema = Schema(json.dumps(ORDER), "AVRO")
    with broker.registry.fault(call="register", subject="orders-value", error=50001, count=1) as fault:
        assert client.register_schema("other-value", Schema('"int"', "AVRO")) == 1
        with pytest.raises(SchemaRegistryError) as failed:
            client.register_schema("orders-value", schema)
        assert (failed.value.http_status_code, failed.value.error_code) == (500, 50001)
        fault.wait(1, timeout=5)
        assert (fault.hits, fault.active) == (1, False)
        assert client.register_schema("orders-value", schema) == 2
    with broker.registry.fault(error=429) as fault, pytest.raises(SchemaRegistryError) as failed:
        client.get_subjects()
    assert failed.value.http_status_code == 429


def test_what_the_registry_loses_ends_the_connection(broker: Broker) -> None:
    """A lost request registers nothing; of a lost reply the schema is there."""
    schema = Schema(json.dumps(ORDER), "AVRO")
    lost: tuple[tuple[Drop, list[str]], ...] = (("request", []), ("reply", ["lost-value"]))
    for drop, there in lost:
        with broker.registry.fault(call="register", drop=drop, count=1) as fault:
            with pytest.raises(Exception, match=r"(?i)disconnect|closed|reset"):
                client_of(broker, **ONCE).register_schema("lost-value", schema)
            assert fault.hits == 1
        assert broker.registry.subjects() == there


def test_a_slow_registry_makes_a_client_run_out_of_time(broker: Broker) -> None:
    client = client_of(broker, **ONCE, timeout=0.2)
    with broker.registry.fault(call="list", delay=30) as fault:
        with pytest.raises(Exception, match=r"(?i)timed out"):
            client.get_subjects()
        assert fault.hits == 1
    assert client.get_subjects() == []
    with broker.registry.fault(observe=True) as seen:
        client.get_subjects()
        assert seen.hits == 1


# -- a cluster


@pytest.mark.usefixtures("own_cluster")
def test_a_cluster_has_one_registry_at_each_of_its_brokers() -> None:
    with Cluster(brokers=3) as cluster:
        registry = cluster.registry
        first = registry.register("orders", ORDER)
        assert len(registry.urls) == 3
        assert {client_of_url(url).get_latest_version("orders-value").schema_id for url in registry.urls} == {first}
        orders = cluster.topic("orders", partitions=3)
        for index in range(3):
            orders.produce({"id": index, "price": 1}, schema="latest", partition=index)
        assert orders.expect({"id": 2}).decoded["price"] == "1.00"
        with registry.fault(call="register", error=50002) as fault:
            for url in registry.urls:
                with pytest.raises(SchemaRegistryError, match="50002"):
                    client_of_url(url).register_schema("other-value", Schema('"int"', "AVRO"))
            assert fault.wait(3, timeout=5).hits == 3
        leader = cluster.leader("_schemas", 0)
        assert leader is not None
        leader.kill()
        assert cluster.wait_for_leader("_schemas", 0, other_than=leader, timeout=60) != leader
        assert registry.register("orders", GROWN) == first + 1
        leader.start()
        cluster.wait_in_sync(timeout=60)
        assert {client_of_url(url).get_latest_version("orders-value").version for url in registry.urls} == {2}
        for broker in cluster.brokers:
            assert "Traceback" not in broker.log(), broker.log()


def client_of_url(url: str) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": url, **ONCE})
