"""Tiered topics in one folder: Apache Kafka 4.4 and Odradek take turns, and read what the other has copied.

Both refuse the same configurations, and answer the same to ListOffsets. Kafka's store is FolderStorage.java.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from odradek import Broker
from tests.client import kafka_node
from tests.client.kafka_node import KafkaNode

pytestmark = pytest.mark.torture

SOURCE = Path(__file__).parent / "java" / "FolderStorage.java"
COMMON = {
    "remote.log.storage.system.enable": "true",
    "remote.log.manager.task.interval.ms": "500",
    "log.retention.check.interval.ms": "500",
    "log.initial.task.delay.ms": "500",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "3",
    "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
}
TIERED = {
    "remote.storage.enable": "true",
    "segment.bytes": str(1 << 20),
    "local.retention.bytes": "1",
    "retention.ms": "-1",
    "file.delete.delay.ms": "100",
}
ROUND = 1200
SIZE = 1000
SET = AlterConfigOpType.SET
SECONDS = 60


def values(rounds: int) -> list[bytes]:
    """Those that are committed after so many rounds; in each, the third of four transactions is aborted."""
    return [b"%d" % n for n in range(rounds * ROUND) if n % ROUND // 300 != 2]


def produce(bootstrap: str, number: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"of-{number}", "log_level": 0})
    producer.init_transactions(SECONDS)
    for part in range(4):
        producer.begin_transaction()
        first = number * ROUND + part * 300
        for n in range(first, first + 300):
            producer.produce("t", b"x" * SIZE, key=b"%d" % n)
        producer.flush(SECONDS)
        (producer.abort_transaction if part == 2 else producer.commit_transaction)(SECONDS)


def read(bootstrap: str, count: int) -> list[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"g-{time.monotonic_ns()}",
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition("t", 0, 0)])
    found: list[bytes] = []
    deadline = time.monotonic() + SECONDS
    while len(found) < count and time.monotonic() < deadline:
        for message in consumer.consume(500, 1):
            assert message.error() is None, message.error()
            found.append(message.key() or b"")
    consumer.close()
    return found


REFUSED: list[dict[str, str]] = [
    {"remote.storage.enable": "true"},
    {"remote.storage.enable": "true", "cleanup.policy": "compact"},
    {"remote.storage.enable": "true", "cleanup.policy": "compact,delete"},
    {"remote.storage.enable": "true", "cleanup.policy": ""},
    {"remote.storage.enable": "true", "retention.ms": "1000", "local.retention.ms": "1001"},
    {"remote.storage.enable": "true", "retention.ms": "1000", "local.retention.ms": "1000"},
    {"remote.storage.enable": "true", "retention.ms": "1000", "local.retention.ms": "-1"},
    {"remote.storage.enable": "true", "retention.bytes": "1000", "local.retention.bytes": "1001"},
    {"remote.storage.enable": "true", "retention.bytes": "-1", "local.retention.bytes": "-1"},
    {"remote.storage.enable": "false", "retention.ms": "1000", "local.retention.ms": "1001"},
    {"remote.storage.enable": "true", "remote.log.copy.disable": "true"},
    {"remote.storage.enable": "true", "remote.log.copy.disable": "true", "local.retention.ms": "1000"},
    {"remote.storage.enable": "true", "remote.log.copy.disable": "true", "local.retention.bytes": "1000"},
    {"remote.storage.enable": "true", "remote.copy.lag.ms": "1000", "local.retention.ms": "999"},
    {"remote.storage.enable": "true", "remote.copy.lag.ms": "1000", "local.retention.ms": "1000"},
    {"remote.storage.enable": "true", "remote.copy.lag.bytes": "1000", "local.retention.bytes": "999"},
    {"remote.storage.enable": "true", "local.retention.ms": "-3"},
    {"remote.log.copy.disable": "true"},
    {"remote.log.delete.on.disable": "true"},
]
"""Configurations of a new topic; some of them are fine."""
ALTERED: list[dict[str, str]] = [
    {"remote.storage.enable": "false"},
    {"remote.log.copy.disable": "true"},
    {"remote.log.copy.disable": "true", "local.retention.bytes": "-2"},
    {"cleanup.policy": "compact"},
    {"remote.copy.lag.bytes": "2"},
]
"""Changes of the tiered topic, which are only asked about."""


def answers(bootstrap: str) -> list[tuple[dict[str, str], int]]:
    """The code of each answer to them."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    found = []
    for configs in REFUSED:
        (future,) = admin.create_topics([NewTopic("v", 1, 1, config=configs)], validate_only=True).values()
        found.append((configs, _code(future)))
    for configs in ALTERED:
        entries = [ConfigEntry(name, value, incremental_operation=SET) for name, value in configs.items()]
        resource = ConfigResource(ResourceType.TOPIC, "t", incremental_configs=entries)
        (future,) = admin.incremental_alter_configs([resource], validate_only=True).values()
        found.append((configs, _code(future)))
    return found


def _code(future: Any) -> int:
    error = future.exception(SECONDS)
    if error is None:
        return 0
    assert isinstance(error, KafkaException)
    return int(error.args[0].code())


def offsets(bootstrap: str) -> dict[str, str]:
    """What Kafka's tool says of the topic's offsets."""
    found = {}
    for time_ in ("earliest", "earliest-local", "latest-tiered", "-6", "latest"):
        tool = kafka_node.command(
            "org.apache.kafka.tools.GetOffsetShell", "--bootstrap-server", bootstrap, "--topic", "t", "--time", time_
        )
        done = subprocess.run(tool, capture_output=True, timeout=SECONDS, check=True)
        found[time_] = done.stdout.decode().strip()
    return found


def local_segments(folder: Path) -> int:
    return len(list((folder / "t-0").glob("*.log")))


def await_copies(folder: Path) -> None:
    """Return once only the active segment is local."""
    _until(lambda: local_segments(folder) == 1)


def _until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not done() and time.monotonic() < deadline:
        time.sleep(0.2)
    assert done()


def test_kafka_and_odradek_read_what_the_other_has_copied_to_remote_storage(tmp_path: Path) -> None:
    reason = kafka_node.missing()
    if reason is None and kafka_node.release_of(kafka_node.jars()) < (4, 4):
        reason = f"Kafka {kafka_node.release()} is here, which is older than our metadata.version"
    if reason is not None:
        pytest.skip(reason)
    classes, store, folder = tmp_path / "classes", tmp_path / "store", tmp_path / "data"
    subprocess.run(
        ["javac", "-cp", f"{kafka_node.jars()}/*", "-d", str(classes), str(SOURCE)], check=True, timeout=SECONDS
    )
    of_kafka = {
        "remote.log.storage.manager.class.name": "FolderStorage",
        "remote.log.storage.manager.class.path": f"{classes}/",
        "remote.log.metadata.manager.listener.name": "PLAINTEXT",
        "rlmm.config.remote.log.metadata.topic.min.isr": "1",
        "rsm.config.dir": str(store),
    }
    kafka = KafkaNode(folder, settings={**COMMON, **of_kafka})
    kafka.format()
    ours = {"remote.log.storage.manager.class.name": "folder", "rsm.config.dir": str(store), "node.id": 1}
    odradek = Broker({**COMMON, **ours}, profile="dev", data_dir=folder)
    try:
        admin = kafka.start()
        admin.create_topics([NewTopic("t", 1, 1, config=TIERED)])["t"].result(SECONDS)
        produce(kafka.bootstrap, 0)
        await_copies(folder)
        assert read(kafka.bootstrap, len(values(1))) == values(1)
        of_kafka_44, places = answers(kafka.bootstrap), offsets(kafka.bootstrap)
        kafka.stop()

        odradek.start()
        assert read(odradek.bootstrap_servers, len(values(1))) == values(1)
        assert answers(odradek.bootstrap_servers) == of_kafka_44
        assert offsets(odradek.bootstrap_servers) == places
        produce(odradek.bootstrap_servers, 1)
        await_copies(folder)
        assert read(odradek.bootstrap_servers, len(values(2))) == values(2)
        assert odradek.stop() == 0

        kafka.start()
        assert read(kafka.bootstrap, len(values(2))) == values(2)
        produce(kafka.bootstrap, 2)
        await_copies(folder)
        assert read(kafka.bootstrap, len(values(3))) == values(3)
        kafka.stop()

        odradek.start()
        assert read(odradek.bootstrap_servers, len(values(3))) == values(3)
        log = odradek.log()
        assert "Traceback" not in log, log
    finally:
        kafka.kill()
        odradek.close()
