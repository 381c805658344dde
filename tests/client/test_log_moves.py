"""Kafka's kafka-reassign-partitions moves a partition between log folders while a stock producer writes to it."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from odradek import Broker
from tests.client.java_tools import java
from tests.messages import value_of

REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
BEFORE = 5000
ATTEMPTS = 10


@pytest.mark.usefixtures("own_cluster", "java_tool")
def test_a_partition_moves_and_every_record_with_it(topic: str, tmp_path: Path) -> None:
    folders = [str(tmp_path / name) for name in ("a", "b")]
    plan = tmp_path / "plan.json"
    partition = {"topic": topic, "partition": 0, "replicas": [1], "log_dirs": [folders[1]]}
    plan.write_text(json.dumps({"version": 1, "partitions": [partition]}))
    with Broker({"log.dirs": ",".join(folders), "node.id": "1"}) as broker:
        bootstrap = broker.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
        producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        for number in range(BEFORE):
            producer.produce(topic, b"%d" % number)
        producer.flush(30)
        moved = threading.Event()
        sent = BEFORE

        def write() -> None:
            nonlocal sent
            while not moved.is_set():
                producer.produce(topic, b"%d" % sent)
                sent += 1
                producer.flush(30)

        writing = threading.Thread(target=write)
        writing.start()
        try:
            arguments = ("--bootstrap-server", bootstrap, "--reassignment-json-file", str(plan))
            told = java(REASSIGN, *arguments, "--execute").stdout.decode()
            for _ in range(ATTEMPTS):
                verified = java(REASSIGN, *arguments, "--verify").stdout.decode()
                if "is still in progress" not in verified:
                    break
        finally:
            moved.set()
            writing.join()
        assert "Successfully started moving log directory" in told
        assert f"replica {topic}-0-1 completed successfully" in verified
        assert (tmp_path / "b" / f"{topic}-0").is_dir()
        assert read(bootstrap, topic, sent) == [b"%d" % number for number in range(sent)]
        broker.kill()
        broker.restart()
        assert read(broker.bootstrap_servers, topic, sent) == [b"%d" % number for number in range(sent)]


def read(bootstrap: str, topic: str, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[bytes] = []
        while len(found) < count and (batch := consumer.consume(count - len(found), timeout=20)):
            found += [value_of(message) for message in batch]
        return found
    finally:
        consumer.close()
