"""An `odradek.Cluster` whose clients need TLS and a password, or a certificate, at each of its brokers."""

from __future__ import annotations

import time
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient

from odradek import Cluster

pytestmark = pytest.mark.usefixtures("own_cluster")

SECONDS = 60
USERS = {"app": "secret", "other": "also secret"}


def write(config: dict[str, Any], topic: str, value: bytes) -> None:
    producer = Producer({**config, "enable.idempotence": True})
    failed: list[Any] = []
    producer.produce(topic, value, partition=0, on_delivery=lambda error, _: failed.extend([error] if error else []))
    assert producer.flush(SECONDS) == 0
    assert failed == []


def assert_refused(config: dict[str, Any]) -> None:
    errors: list[KafkaError] = []
    with_errors: Any = {**config, "error_cb": errors.append}
    client = AdminClient(with_errors)
    deadline = time.monotonic() + SECONDS
    while KafkaError._AUTHENTICATION not in [error.code() for error in errors]:
        assert time.monotonic() < deadline, errors
        client.poll(0.1)


async def test_users_log_in_at_every_broker_and_a_leader_may_die() -> None:
    with Cluster(brokers=2, security="SASL_SSL", users=USERS) as cluster:
        topic = cluster.topic("orders", partitions=1)
        for broker, mechanism in zip(cluster.brokers, ("PLAIN", "SCRAM-SHA-512"), strict=True):
            cluster.move_leader("orders", 0, broker)
            write(cluster.client_config("confluent", user="other", mechanism=mechanism), "orders", b"confluent")
            assert_refused({**broker.client_config("confluent"), "sasl.password": "wrong"})
        async with AIOKafkaProducer(**cluster.client_config("aiokafka"), enable_idempotence=True) as producer:
            await producer.send_and_wait("orders", b"aiokafka")
            leader = cluster.leader("orders", 0)
            assert leader is not None
            leader.kill()
            await producer.send_and_wait("orders", b"after the kill")
        leader.start()
        cluster.wait_in_sync(timeout=SECONDS)
        expected = [b"confluent", b"confluent", b"aiokafka", b"after the kill"]
        assert [record.value for record in topic.records()] == expected
        assert cluster.ca_file == cluster.brokers[1].ca_file


def test_a_certificate_of_the_clusters_authority_is_known_at_every_broker() -> None:
    with Cluster(brokers=2, security="SSL", users=["app"]) as cluster:
        topic = cluster.topic("orders", partitions=1)
        for broker in cluster.brokers:
            cluster.move_leader("orders", 0, broker)
            write(cluster.client_config("confluent", user="app"), "orders", b"%d" % broker.index)
        assert [record.value for record in topic.records()] == [b"0", b"1"]


def test_wrong_parameters_are_named() -> None:
    with pytest.raises(ValueError, match="users: expected security='SASL_SSL' with them"):
        Cluster(users={"app": "pw"})
    with pytest.raises(ValueError, match="security = 'TLS': expected one of"):
        Cluster(security="TLS")
    with pytest.raises(ValueError, match=r"security = 'SASL_SSL': expected users="):
        Cluster(security="SASL_SSL")
    with pytest.raises(ValueError, match=r"listener\.security\.protocol\.map is set by the cluster itself"):
        Cluster(settings={"listener.security.protocol.map": "A:PLAINTEXT"})
