"""Brokers and controllers that take nobody unknown: TLS and SASL between all of them, and re-authentication."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from trustme import CA

from odradek import Broker
from tests.certificates import pair
from tests.cluster.kafka_controllers import KafkaControllers

MODULE = 'org.apache.kafka.common.security.{} required username="node" password="node-secret"'
PLAIN = MODULE.format("plain.PlainLoginModule")
SCRAM = MODULE.format("scram.ScramLoginModule") + ";"
PROTOCOLS = "CONTROLLER:SASL_SSL,INTERNAL:SASL_SSL,CLIENTS:SASL_SSL"


@dataclass(frozen=True, slots=True)
class SecuredCluster:
    brokers: dict[int, Broker]
    client: dict[str, Any]


@pytest.fixture(scope="module")
def cluster(kafka: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    folder = tmp_path_factory.mktemp("secured")
    stores = make_stores(folder)
    of_controllers = {
        "listener.security.protocol.map": "CONTROLLER:SASL_SSL",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": f'{PLAIN} user_node="node-secret";',
        "connections.max.reauth.ms": "3000",
        **stores,
    }
    lines = [f"{name}={value}" for name, value in of_controllers.items()]
    with ExitStack() as stack:
        controllers = stack.enter_context(KafkaControllers(folder, settings=lines))
        brokers = {
            node_id: stack.enter_context(
                Broker(broker_settings(controllers, node_id, folder, stores), start_timeout=90)
            )
            for node_id in (1, 2)
        }
        servers = ",".join(broker.listeners["CLIENTS"] for broker in brokers.values())
        client = {
            "bootstrap.servers": servers,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(folder / "ca.pem"),
            "sasl.mechanism": "PLAIN",
            "sasl.username": "app",
            "sasl.password": "app-secret",
        }
        yield SecuredCluster(brokers, client)
        for broker in brokers.values():
            assert "Traceback" not in broker.log(), broker.log()


def make_stores(folder: Path) -> dict[str, str]:
    ca = CA()
    (folder / "node.pem").write_bytes(pair(ca).pem)
    (folder / "ca.pem").write_bytes(ca.cert_pem.bytes())
    (folder / "users").write_text("node:node-secret\napp:app-secret\n")
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "node.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.pem"),
        "ssl.client.auth": "required",
    }


def broker_settings(
    controllers: KafkaControllers, node_id: int, folder: Path, stores: dict[str, str]
) -> dict[str, object]:
    return controllers.broker_settings(node_id) | {
        "listeners": "INTERNAL://127.0.0.1:0,CLIENTS://127.0.0.1:0",
        "listener.security.protocol.map": PROTOCOLS,
        "listener.name.clients.ssl.client.auth": "none",
        "inter.broker.listener.name": "INTERNAL",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.internal.scram-sha-512.sasl.jaas.config": SCRAM,
        "listener.name.controller.plain.sasl.jaas.config": f"{PLAIN};",
        "listener.name.internal.connections.max.reauth.ms": "3000",
        "odradek.users.file": str(folder / "users"),
        "replica.lag.time.max.ms": "10000",
        **stores,
    }


def test_replicas_follow_over_many_sessions(cluster: SecuredCluster) -> None:
    admin = AdminClient(cluster.client)
    admin.create_topics([NewTopic("t", 2, 2, config={"min.insync.replicas": "2"})])["t"].result(30)
    producer = Producer(cluster.client | {"acks": "all", "message.timeout.ms": 60_000})
    failed: list[object] = []
    sent, end = 0, time.monotonic() + 10
    while time.monotonic() < end:
        producer.produce("t", b"x" * 100, on_delivery=lambda error, _: failed.append(error) if error else None)
        producer.poll(0.01)
        sent += 1
    assert producer.flush(60) == 0
    assert not failed
    assert sent > 100
    topic = admin.list_topics("t", timeout=30).topics["t"]
    assert all(sorted(partition.isrs) == [1, 2] for partition in topic.partitions.values())
    for broker in cluster.brokers.values():
        assert "the session is over" not in broker.log()
