"""An `odradek.Cluster` whose clients need TLS and a password, or a certificate, at each of its brokers."""

from __future__ import annotations

import time
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from odradek import Cluster

pytestmark = pytest.mark.usefixtures("own_cluster")

SECONDS = 60
USERS = {"app": "secret", "other": "also secret"}


def write(config: dict[str, Any], topic: str, value: bytes) -> str | None:
    """The name of the error, if there is one."""
    producer = Producer({**config, "enable.idempotence": True})
    errors: list[KafkaError | None] = []
    producer.produce(topic, value, partition=0, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(SECONDS) == 0
    (error,) = errors
    return None if error is None else error.name()


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
            config = cluster.client_config("confluent", user="other", mechanism=mechanism)
            assert write(config, "orders", b"confluent") is None
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
            assert write(cluster.client_config("confluent", user="app"), "orders", b"%d" % broker.index) is None
        assert [record.value for record in topic.records()] == [b"0", b"1"]


def test_acls_count_at_every_broker_and_at_the_controller() -> None:
    acls = ["app READ,WRITE,CREATE TOPIC orders-*"]
    with Cluster(brokers=2, security="SASL_PLAINTEXT", users={"app": "pw"}, acls=acls) as cluster:
        cluster.topic("payments", partitions=1)
        cluster.topic("orders-1", partitions=1)
        for broker in cluster.brokers:
            for name in ("payments", "orders-1"):
                cluster.move_leader(name, 0, broker)
            config = broker.client_config("confluent")
            assert write(config, "orders-1", b"%d" % broker.index) is None
            assert write(config, "payments", b"x") == "TOPIC_AUTHORIZATION_FAILED"
            admin = AdminClient(config)
            allowed, refused = NewTopic(f"orders-new-{broker.index}", 1, 2), NewTopic("payments-new", 1, 2)
            made = admin.create_topics([allowed, refused])
            made[allowed.topic].result(SECONDS)
            with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
                made[refused.topic].result(SECONDS)
        cluster.wait_in_sync(timeout=SECONDS)
        assert [record.value for record in cluster.topics()["orders-1"].records()] == [b"0", b"1"]


def test_wrong_parameters_are_named() -> None:
    with pytest.raises(ValueError, match="users: expected security='SASL_SSL' with them"):
        Cluster(users={"app": "pw"})
    with pytest.raises(ValueError, match="acls: expected users with them"):
        Cluster(acls=["app READ TOPIC x"])
    with pytest.raises(ValueError, match="security = 'TLS': expected one of"):
        Cluster(security="TLS")
    with pytest.raises(ValueError, match=r"security = 'SASL_SSL': expected users="):
        Cluster(security="SASL_SSL")
    with pytest.raises(ValueError, match=r"listener\.security\.protocol\.map is set by the cluster itself"):
        Cluster(settings={"listener.security.protocol.map": "A:PLAINTEXT"})
