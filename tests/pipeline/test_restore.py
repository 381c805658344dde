"""`odradek-pipeline restore` between brokers over sockets: Odradek's, and Apache Kafka's."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("deltalake", reason="requirements-pipeline.txt is not installed")

from confluent_kafka import Consumer, Producer, TopicPartition

from odradek import Broker
from tests.client import kafka_node
from tests.client.kafka_node import KafkaNode, dump_log_segments
from tests.command_line import Odradek
from tests.pipeline.consumed import consumed
from tests.pipeline.lakes import create_topic
from tests.unit.pipeline.restored import restore

ORDERS = "orders"


def fill(bootstrap: str) -> None:
    """Two partitions with records of no transaction, of committed ones, an aborted and an open one; and a group."""
    create_topic(bootstrap, ORDERS, 2)
    plain = Producer({"bootstrap.servers": bootstrap, "compression.type": "zstd", "linger.ms": 5})
    for number in range(500):
        headers: list[tuple[str, str | bytes | None]] = [("trace", b"%d" % number), ("none", None)]
        plain.produce(
            ORDERS, b"v%d" % number, b"k%d" % number, number % 2, headers=headers, timestamp=1_700_000_000_000 + number
        )
    assert plain.flush(60) == 0
    for round_, end in enumerate(("commit", "abort", "commit", "open")):
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"t-{round_}"})
        producer.init_transactions(60)
        producer.begin_transaction()
        for number in range(20):
            producer.produce(ORDERS, b"%s %d" % (end.encode(), number), b"k", number % 2)
        assert producer.flush(60) == 0
        if end == "commit":
            producer.commit_transaction(60)
        elif end == "abort":
            producer.abort_transaction(60)
    group(bootstrap).commit(
        offsets=[TopicPartition(ORDERS, 0, 123), TopicPartition(ORDERS, 1, 261)], asynchronous=False
    )


def group(bootstrap: str) -> Consumer:
    return Consumer({"bootstrap.servers": bootstrap, "group.id": "readers", "enable.auto.commit": False})


def committed(bootstrap: str) -> list[int]:
    found = group(bootstrap).committed([TopicPartition(ORDERS, number) for number in range(2)], timeout=30)
    return [place.offset for place in found]


def complaints(folder: Path) -> list[str]:
    """What Kafka's DumpLogSegments says against the logs of a folder."""
    logs = ",".join(str(path) for path in sorted(folder.glob(f"{ORDERS}-*/*.log")))
    said = dump_log_segments("--deep-iteration", "--files", logs)
    assert "isvalid: true" in said
    return [line for line in said.splitlines() if "isvalid: false" in line or "Found" in line or "Mismatch" in line]


def test_the_folder_of_a_killed_broker_becomes_that_of_a_new_one(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    with Broker({"log.dirs": str(old), "flush.messages": 1}, profile="dev") as broker:
        fill(broker.bootstrap_servers)
        broker.kill()
    status, result = restore("--from-data", old, "--into-data", new)
    assert (status, result["ok"]) == (0, True)
    if kafka_node.missing() is None:
        assert complaints(new) == []
    with Broker({"log.dirs": str(new)}, profile="dev") as broker:
        records = consumed(broker.bootstrap_servers, ORDERS, 2, "read_committed")
        both = consumed(broker.bootstrap_servers, ORDERS, 2, "read_uncommitted")
        assert committed(broker.bootstrap_servers) == [123, 261]
    with Broker({"log.dirs": str(old)}, profile="dev") as broker:
        assert consumed(broker.bootstrap_servers, ORDERS, 2, "read_committed") == records
        assert consumed(broker.bootstrap_servers, ORDERS, 2, "read_uncommitted") == both
    assert len(records) == 540
    assert len(both) == 580


@pytest.mark.skipif(kafka_node.missing() is not None, reason=str(kafka_node.missing()))
def test_kafka_serves_the_records_that_were_restored_into_its_folder(tmp_path: Path) -> None:
    old = tmp_path / "old"
    with Broker({"log.dirs": str(old)}, profile="dev") as broker:
        fill(broker.bootstrap_servers)
        wanted = consumed(broker.bootstrap_servers, ORDERS, 2, "read_committed")
    node = KafkaNode(tmp_path / "kafka")
    node.format()
    node.start()
    create_topic(node.bootstrap, ORDERS, 2, retention_ms="-1")
    node.stop()
    status, _ = restore("--from-data", old, "--topic", ORDERS, "--into-data", node.folder)
    assert status == 0
    assert complaints(node.folder) == []
    node.start()
    try:
        found = consumed(node.bootstrap, ORDERS, 2, "read_uncommitted")
    finally:
        node.stop()
    assert found == wanted


def test_a_backup_becomes_a_broker_s_folder(tmp_path: Path) -> None:
    backups = tmp_path / "backups"
    with Broker({"odradek.backup.folder": str(backups)}, profile="dev") as broker:
        fill(broker.bootstrap_servers)
        Odradek(broker.bootstrap_servers).told("backup", "create", "monday")
        records = consumed(broker.bootstrap_servers, ORDERS, 2, "read_committed")
    assert restore("--from-data", backups / "monday", "--into-data", tmp_path / "new")[0] == 0
    with Broker({"log.dirs": str(tmp_path / "new")}, profile="dev") as broker:
        assert consumed(broker.bootstrap_servers, ORDERS, 2, "read_committed") == records
        assert committed(broker.bootstrap_servers) == [123, 261]
