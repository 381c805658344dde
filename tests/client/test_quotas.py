"""Client quotas: Apache Kafka's own tool sets them, stock clients are held back and report it."""

from __future__ import annotations

import json
import time

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from tests.client.java_tools import CONFIGS, java, said, tool
from tests.messages import value_of

pytestmark = pytest.mark.usefixtures("java_tool")

RATE = 30_000
"""Bytes per second; ten times as much may go by before a client has to wait."""
VALUES = [n.to_bytes(4, "big") * 2500 for n in range(36)]
PATIENCE_SECONDS = 60.0


@pytest.mark.parametrize(
    ("entity", "quota", "told"),
    [
        (
            ("users", "{}", "clients", "{}"),
            "request_percentage=12.5",
            "user-principal '{}', client-id '{}' are request_percentage=12.5",
        ),
        (("ips", "192.0.2.17"), "connection_creation_rate=7", "ip '192.0.2.17' are connection_creation_rate=7.0"),
    ],
    ids=lambda one: one[0] if isinstance(one, tuple) else "",
)
def test_quotas_are_set_described_and_removed(
    bootstrap: str, topic: str, entity: tuple[str, ...], quota: str, told: str
) -> None:
    whom = [
        argument
        for kind, name in zip(entity[::2], entity[1::2], strict=True)
        for argument in ("--entity-type", kind, "--entity-name", name.format(topic))
    ]
    tool(CONFIGS, bootstrap, "--alter", *whom, "--add-config", quota)
    assert f"Quota configs for {told.replace('{}', topic)}" in tool(CONFIGS, bootstrap, "--describe", *whom)
    tool(CONFIGS, bootstrap, "--alter", *whom, "--delete-config", quota.partition("=")[0])
    assert not tool(CONFIGS, bootstrap, "--describe", *whom).strip()


def test_a_quota_that_makes_no_sense_is_refused(bootstrap: str, topic: str) -> None:
    whom = ("--entity-type", "clients", "--entity-name", topic)
    refused = java(CONFIGS, "--bootstrap-server", bootstrap, "--alter", *whom, "--add-config", "producer_byte_rate=-1")
    assert "Quota producer_byte_rate must be greater than 0" in said(refused)


def test_producer_byte_rate_and_consumer_byte_rate_hold_a_client_back(bootstrap: str, topic: str) -> None:
    whom = ("--entity-type", "clients", "--entity-name", topic)
    quotas = f"producer_byte_rate={RATE},consumer_byte_rate={RATE}"
    tool(CONFIGS, bootstrap, "--alter", *whom, "--add-config", quotas)
    told = tool(CONFIGS, bootstrap, "--describe", *whom)
    assert f"client-id '{topic}' are " in told
    assert {f"{quota}.0" for quota in quotas.split(",")} == set(told.split(" are ")[1].strip().split(", "))
    throttled_ms = 0

    def note(statistics: str) -> None:
        nonlocal throttled_ms
        brokers = json.loads(statistics)["brokers"].values()
        throttled_ms = max([throttled_ms, *(broker["throttle"]["max"] for broker in brokers)])

    client = {
        "bootstrap.servers": bootstrap,
        "client.id": topic,
        "statistics.interval.ms": 100,
        "stats_cb": note,
        "allow.auto.create.topics": True,
    }
    producer = Producer(client | {"acks": "all", "linger.ms": 5, "batch.size": 50_000})
    for value in VALUES:
        producer.produce(topic, value, partition=0)
    assert producer.flush(PATIENCE_SECONDS) == 0
    until = time.monotonic() + PATIENCE_SECONDS
    while not throttled_ms and time.monotonic() < until:
        producer.poll(0.1)
    assert throttled_ms > 0

    throttled_ms = 0
    consumer = Consumer(client | {"group.id": topic, "enable.auto.commit": False, "fetch.message.max.bytes": 50_000})
    try:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        found: list[bytes] = []
        while time.monotonic() < until and (len(found) < len(VALUES) or not throttled_ms):
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                found.append(value_of(message))
    finally:
        consumer.close()
    assert found == VALUES
    assert throttled_ms > 0
    tool(CONFIGS, bootstrap, "--alter", *whom, "--delete-config", "producer_byte_rate,consumer_byte_rate")
