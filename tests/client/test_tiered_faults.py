"""Faults of remote storage in the test kit: consumers of cold records get errors, or wait; others notice nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from odradek import Broker
from odradek.control import ControlError
from odradek.faults import RemoteStorage
from tests.client.test_tiered_storage import QUICK, TIERED
from tests.command_line import Odradek

SECONDS = 30


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """It has a topic of which only the end is local."""
    store = {"rsm.config.dir": str(tmp_path_factory.mktemp("remote"))}
    with Broker({**QUICK, **store, "remote.log.storage.manager.class.name": "folder"}) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        topics = [NewTopic("cold", 1, 1, config=TIERED), NewTopic("hot", 1, 1)]
        for future in admin.create_topics(topics).values():
            future.result(SECONDS)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for topic in ("cold", "hot"):
            for _ in range(3000):
                producer.produce(topic, b"x" * 1000)
            assert producer.flush(SECONDS) == 0
        deadline = time.monotonic() + SECONDS
        while "here from offset 0" in Odradek(broker.bootstrap_servers).told("tier", "status", "cold"):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        yield broker
        broker.remote_storage("fine")


def first_of(broker: Broker, topic: str, seconds: float) -> bytes | None:
    """The first record of a topic, if it comes within that time."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "log_level": 0})
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                return message.value()
        return None
    finally:
        consumer.close()


@pytest.mark.parametrize("kind", ["error", "lost", "corrupt", "slow"])
def test_a_fault_of_remote_storage_keeps_cold_records_away_and_no_others(broker: Broker, kind: RemoteStorage) -> None:
    broker.remote_storage(kind, seconds=60)
    assert first_of(broker, "cold", 1) is None
    assert first_of(broker, "hot", SECONDS) == b"x" * 1000
    broker.remote_storage("fine")
    assert first_of(broker, "cold", SECONDS) == b"x" * 1000


def test_a_fault_of_remote_storage_needs_tiered_storage() -> None:
    with Broker() as broker, pytest.raises(ControlError, match="this broker has no tiered storage"):
        broker.remote_storage("error")
