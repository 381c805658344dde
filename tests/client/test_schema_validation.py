"""`confluent.value.schema.validation` before stock clients: what is refused, how they are told, and in a cluster."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType
from confluent_kafka.schema_registry import SchemaRegistryClient, record_subject_name_strategy
from confluent_kafka.schema_registry.avro import AvroSerializer
from kio.schema.errors import ErrorCode

from odradek import Broker, Cluster, ControlError
from tests.client.raw import RawConnection
from tests.client.test_registry import value_of
from tests.unit.broker.wire import answer, batch, frame, produce

VALIDATION = "confluent.value.schema.validation"
STRATEGY = "confluent.value.subject.name.strategy"
BY_RECORD = "io.confluent.kafka.serializers.subject.RecordNameStrategy"
ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [{"name": "id", "type": "int"}],
}


def send(servers: str, topic: str, *values: bytes, **config: Any) -> list[KafkaError | None]:
    """The error of each record, in their order; they go in one batch, each to partition 0."""
    errors: list[KafkaError | None] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        errors.append(error)

    producer = Producer({"bootstrap.servers": servers, "linger.ms": 200, **config})
    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=delivered)
    assert producer.flush(60) == 0
    return errors


@pytest.mark.parametrize("config", [{}, {"compression.type": "zstd"}, {"enable.idempotence": True}], ids=str)
def test_stock_producers_are_refused_what_names_no_schema_of_the_topic(config: dict[str, Any]) -> None:
    with Broker() as broker:
        orders = broker.topic("orders", configs={VALIDATION: "true"})
        client = SchemaRegistryClient({"url": broker.registry.url})
        serialize = AvroSerializer(client, json.dumps(ORDER))
        right = serialize({"id": 7}, value_of("orders"))
        elsewhere = AvroSerializer(client, json.dumps({**ORDER, "name": "Mail"}))({"id": 7}, value_of("mails"))
        assert send(broker.bootstrap_servers, "orders", right, **config) == [None]
        for wrong in (elsewhere, b'{"id": 7}', b"\0\0\0\0\x63x"):
            (error,) = send(broker.bootstrap_servers, "orders", wrong, **config)
            assert error is not None
            assert error.name() == "INVALID_RECORD"
            assert not error.retriable()
        assert [record.decoded for record in orders.records()] == [{"id": 7}]
        with pytest.raises(ControlError, match=r"INVALID_RECORD.*record 0: the value names no schema"):
            orders.produce("plain")
        assert "Traceback" not in broker.log(), broker.log()


def test_a_refused_batch_names_its_records() -> None:
    with Broker() as broker:
        broker.topic("orders", configs={VALIDATION: "true"})
        known = broker.registry.register("orders", ORDER)
        right = b"\0" + known.to_bytes(4, "big") + b"\x0e"
        with RawConnection(broker.bootstrap_servers) as connection:
            sent = produce("orders", {0: batch(right, b"plain", right, b"\0\0\0\0\7x")})
            connection.send(frame("produce", 9, 1, **sent))
            reply = connection.read_frame()
        told = answer(reply, "produce", 9).responses[0].partition_responses[0]
        assert told.error_code is ErrorCode.invalid_record
        assert [one.batch_index for one in told.record_errors] == [1, 3]
        assert broker.topics()["orders"].records() == []


def test_a_schema_of_the_records_name_is_right_where_the_topic_says_so() -> None:
    with Broker() as broker:
        broker.topic("events", configs={VALIDATION: "true", STRATEGY: BY_RECORD})
        client = SchemaRegistryClient({"url": broker.registry.url})
        by_record = AvroSerializer(
            client, json.dumps(ORDER), conf={"subject.name.strategy": record_subject_name_strategy}
        )
        by_topic = AvroSerializer(client, json.dumps({**ORDER, "name": "Bill"}))
        values = by_record({"id": 7}, value_of("events")), by_topic({"id": 7}, value_of("events"))
        assert client.get_subjects() == ["events-value", "shop.Order"]
        outcomes = [send(broker.bootstrap_servers, "events", value)[0] for value in values]
        assert outcomes[0] is None
        assert outcomes[1] is not None and outcomes[1].name() == "INVALID_RECORD"


def test_the_configuration_is_described_where_it_is_set_and_unknown_without_a_registry() -> None:
    with Broker() as broker:
        broker.topic("orders", configs={VALIDATION: "true"})
        broker.topic("plain")
        admin = AdminClient(broker.client_config("confluent"))

        def described(topic: str) -> dict[str, Any]:
            resource = ConfigResource(ResourceType.TOPIC, topic)
            return dict(admin.describe_configs([resource])[resource].result(30))

        assert described("orders")[VALIDATION].value == "true"
        assert not [name for name in described("plain") if name.startswith("confluent.")]
    with Broker({"odradek.control": ""}, profile="kafka") as broker:
        admin = AdminClient(broker.client_config("confluent"))
        wanted = NewTopic("orders", 1, config={VALIDATION: "true"})
        with pytest.raises(KafkaException, match="Unknown topic config name: confluent"):
            admin.create_topics([wanted])["orders"].result(30)


@pytest.mark.usefixtures("own_cluster")
def test_in_a_cluster_each_leader_asks_the_one_that_has_the_schemas() -> None:
    with Cluster(brokers=3) as cluster:
        known = cluster.registry.register("orders", ORDER)
        right, wrong = b"\0" + known.to_bytes(4, "big") + b"\x0e", b"\0\0\0\0\x63x"
        cluster.topic("orders", partitions=1, configs={VALIDATION: "true"})
        for broker in cluster.brokers:
            cluster.move_leader("orders", 0, broker.index)
            (error,) = send(cluster.bootstrap_servers, "orders", wrong)
            assert error is not None and error.name() == "INVALID_RECORD"
            assert send(cluster.bootstrap_servers, "orders", right) == [None]
        leader = cluster.leader("_schemas", 0)
        assert leader is not None
        leader.kill()
        assert send(cluster.bootstrap_servers, "orders", right) == [None]
        assert len(cluster.topics()["orders"].records()) == 4
        leader.start()
        cluster.wait_in_sync(timeout=60)
        for broker in cluster.brokers:
            assert "Traceback" not in broker.log(), broker.log()
