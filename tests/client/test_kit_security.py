"""A Broker with security: its certificates, its users, and what stock clients are given to come in."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaProducer

from odradek import Broker
from odradek.security import MECHANISMS, Security
from tests.brokers import sound_broker
from tests.client import kafka_node
from tests.waiting import wait_until

USERS = {"app": 'a "quoted" \\ pässword = #', "other": "pw"}
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with sound_broker(security="SASL_SSL", users=USERS) as broker:
        yield broker


async def aiokafka_send(config: dict[str, Any], topic: str) -> None:
    async with AIOKafkaProducer(**config) as producer:
        await producer.send_and_wait(topic, b"aiokafka")


def confluent_send(config: dict[str, Any], topic: str) -> None:
    producer = Producer(config)
    producer.produce(topic, b"confluent")
    assert producer.flush(PATIENCE_S) == 0


def kafka_python_send(config: dict[str, Any], topic: str) -> None:
    with contextlib.closing(KafkaProducer(**config)) as producer:
        producer.send(topic, b"kafka-python").get(PATIENCE_S)


def java_send(config: dict[str, Any], topic: str, folder: Path) -> None:
    settings = folder / "client.properties"
    text = "".join(f"{name}={str(value).replace(chr(92), 2 * chr(92))}\n" for name, value in config.items())
    settings.write_text("".join(char if char.isascii() else f"\\u{ord(char):04x}" for char in text))
    options = ("--bootstrap-server", config["bootstrap.servers"], "--topic", topic, "--num-records", "1")
    more = ("--record-size", "10", "--throughput", "-1", "--command-config", str(settings))
    command = kafka_node.command("org.apache.kafka.tools.ProducerPerformance", *options, *more)
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert "1 records sent" in run.stdout, run.stdout + run.stderr


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_client_comes_in_with_what_it_is_given(broker: Broker, mechanism: str, tmp_path: Path) -> None:
    topic = broker.topic(f"all-{mechanism}")
    for user in USERS:
        chosen = {"user": user, "mechanism": mechanism}
        asyncio.run(aiokafka_send(broker.client_config("aiokafka", **chosen), topic))
        confluent_send(broker.client_config("confluent", **chosen), topic)
        kafka_python_send(broker.client_config("kafka-python", **chosen), topic)
    assert [record.text for record in topic.records()] == 2 * ["aiokafka", "confluent", "kafka-python"]
    if not kafka_node.missing():
        java_send(broker.client_config("java", user="app", mechanism=mechanism), topic, tmp_path)
        assert topic.end_offsets() == {0: 7}


def test_a_certificate_is_the_login_with_ssl(tmp_path: Path) -> None:
    with sound_broker(security="SSL", users=["app"]) as broker:
        topic = broker.topic("t")
        asyncio.run(aiokafka_send(broker.client_config("aiokafka"), topic))
        confluent_send(broker.client_config("confluent"), topic)
        kafka_python_send(broker.client_config("kafka-python"), topic)
        if not kafka_node.missing():
            java_send(broker.client_config("java"), topic, tmp_path)
        nobody: dict[str, Any] = {"bootstrap.servers": broker.bootstrap_servers, "security.protocol": "SSL"}
        with pytest.raises(KafkaException):
            AdminClient(nobody | {"ssl.ca.location": str(broker.ca_file), "log_level": 0}).list_topics(timeout=1)


def test_a_wrong_password_is_refused(broker: Broker) -> None:
    config = broker.client_config("confluent") | {"sasl.password": "wrong", "log_level": 0}
    with pytest.raises(KafkaException):
        AdminClient(config).list_topics(timeout=2)
    wait_until(lambda: "authentication failed" in broker.log(), "the broker says nothing of it")


def test_certificates_stay_over_a_restart_and_keys_are_private() -> None:
    with sound_broker(security="SASL_SSL", users={"app": "pw"}) as broker:
        config = broker.client_config("confluent")
        ca = broker.ca_file.read_bytes()
        broker.restart()
        assert broker.ca_file.read_bytes() == ca
        confluent_send(config, "t")
        secret = [path for path in broker.ca_file.parent.iterdir() if path.name != "ca.pem"]
        assert {stat.S_IMODE(os.stat(path).st_mode) for path in secret} == {0o600}
        assert "pw" not in Path(f"/proc/{broker.pid}/cmdline").read_text().replace("\0", " ").split()


def test_passwords_without_tls() -> None:
    with sound_broker(security="SASL_PLAINTEXT", users={"app": "pw"}) as broker:
        confluent_send(broker.client_config("confluent", mechanism="SCRAM-SHA-256"), "t")
        with pytest.raises(RuntimeError, match="was not made with security"):
            _ = broker.ca_file


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"security": "TLS"}, "expected one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({"users": {"a": "b"}}, "expected security='SASL_SSL' with them"),
        ({"security": "PLAINTEXT", "users": {"a": "b"}}, "expected none"),
        ({"security": "SASL_SSL", "users": ["a"]}, 'expected {"name": "password"}'),
        ({"security": "SASL_SSL", "users": "a:b"}, 'expected {"name": "password"}'),
        ({"security": "SASL_SSL", "users": {"a:b": "c"}}, "without a colon"),
        ({"security": "SASL_SSL", "users": {"a": ""}}, "at least one character"),
        ({"security": "SASL_SSL", "users": {"a": "b\nc"}}, "all on one line"),
        ({"security": "SASL_SSL"}, "expected users="),
    ],
)
def test_wrong_security_is_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said.replace("{", "\\{").replace("}", "\\}")):
        Broker(**wrong)


def test_wrong_users_of_clients_are_refused(tmp_path: Path) -> None:
    security = Security.of("SASL_PLAINTEXT", USERS, tmp_path)
    with pytest.raises(ValueError, match="user = 'nobody': expected one of app, other"):
        security.client_config("confluent", "nobody", None)
    with pytest.raises(ValueError, match="mechanism = 'GSSAPI': expected one of PLAIN"):
        security.client_config("confluent", None, "GSSAPI")
