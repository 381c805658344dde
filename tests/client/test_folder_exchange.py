"""One folder, four owners: Apache Kafka, Odradek, Kafka, Odradek. Each finds what the one before it left.

Topics with their ids and configurations, records, groups and their offsets, transactions done, open and aborted, SCRAM
users and broker configurations are compared at each step, after clean stops and after kill -9 under load.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import pytest
from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kafka import KafkaConsumer, OffsetAndMetadata
from kafka import TopicPartition as KafkaPythonPartition

from odradek import Broker
from tests.client import java_tools, kafka_node
from tests.client.kafka_node import KafkaNode

PARTITIONS = 2
QUIET: dict[str, str | int | float | bool] = {"log_level": 0}  # or each client tells of each owner that is gone
SECONDS = 60
SOME = 20


class Owner(Protocol):
    """Whoever runs on the folder; `bootstrap` is where it is reached."""

    bootstrap: str

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def kill(self) -> None: ...


class Kafka:
    """Apache Kafka 4.4 on the folder."""

    def __init__(self, folder: Path) -> None:
        self._node = KafkaNode(folder)
        self._is_formatted = False
        self.bootstrap = self._node.bootstrap

    def start(self) -> None:
        if not (self._node.folder / "meta.properties").exists():
            self._node.format()
        self._node.start()

    def stop(self) -> None:
        self._node.stop()

    def kill(self) -> None:
        self._node.kill()


class Odradek:
    """Odradek on the folder."""

    def __init__(self, folder: Path) -> None:
        self._broker = Broker({"node.id": 1}, profile="dev", data_dir=folder)
        self.bootstrap = ""

    def start(self) -> None:
        self._broker.start()
        self.bootstrap = self._broker.bootstrap_servers

    def stop(self) -> None:
        assert self._broker.stop() == 0

    def kill(self) -> None:
        self._broker.kill()

    def close(self) -> None:
        self._broker.close()


@pytest.fixture
def owners(tmp_path: Path) -> Iterator[list[Owner]]:
    reason = kafka_node.missing()
    if reason is None and kafka_node.release_of(kafka_node.jars()) < (4, 4):
        reason = f"Kafka {kafka_node.release()} is here, which is older than our metadata.version"
    if reason is not None:
        pytest.skip(reason)
    folder = tmp_path / "data"
    kafka, odradek = Kafka(folder), Odradek(folder)
    yield [kafka, odradek, kafka, odradek]
    kafka.kill()
    odradek.close()


class Content:
    """What was put into the folder so far, and is expected of every later owner."""

    def __init__(self) -> None:
        self.topics: dict[str, str] = {}
        self.values: dict[str, list[bytes]] = {}
        self.offsets: dict[str, int] = {}
        self.retention: dict[str, str] = {}
        self.users: list[str] = []

    def add(self, bootstrap: str, tag: str) -> None:
        """Make a topic, records in and out of transactions, a group's offset, a user, and a broker's configuration."""
        admin = AdminClient({**QUIET, "bootstrap.servers": bootstrap})
        topic = f"topic-{tag}"
        retention = str(1_000_000_000 + len(self.topics))
        admin.create_topics([NewTopic(topic, PARTITIONS, 1, config={"retention.ms": retention})])[topic].result(SECONDS)
        self.retention[topic] = retention
        credential = UserScramCredentialUpsertion(tag, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), b"pass")
        admin.alter_user_scram_credentials([credential])[tag].result(SECONDS)
        self.users.append(tag)
        self.values[topic] = _transact(bootstrap, topic, tag)
        self.offsets[topic] = _commit(bootstrap, topic)
        self.topics = _topic_ids(admin)

    def check(self, bootstrap: str) -> None:
        """Everything is there, and nothing of what was aborted."""
        admin = AdminClient({**QUIET, "bootstrap.servers": bootstrap})
        assert _topic_ids(admin).items() >= self.topics.items()
        for topic, values in self.values.items():
            assert sorted(_read_committed(bootstrap, topic)) == sorted(values)
            assert _committed(bootstrap, topic) == self.offsets[topic]
            assert _config(admin, topic, "retention.ms") == self.retention[topic]
        if self.users:
            told = java_tools.tool(java_tools.CONFIGS, bootstrap, "--describe", "--entity-type", "users")
            assert all(f"user-principal '{user}' are SCRAM-SHA-256=iterations=4096" in told for user in self.users), (
                told
            )


def _topic_ids(admin: AdminClient) -> dict[str, str]:
    names = [name for name in admin.list_topics(timeout=SECONDS).topics if not name.startswith("__")]
    described = admin.describe_topics(TopicCollection(names)) if names else {}
    return {name: str(future.result(SECONDS).topic_id) for name, future in described.items()}


def _transact(bootstrap: str, topic: str, tag: str) -> list[bytes]:
    """Two transactions, the second of them aborted, and one that stays open; return the committed values."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "exchange"} | QUIET)
    producer.init_transactions(SECONDS)
    committed = [f"{tag}-{number}".encode() for number in range(20)]
    for values, commit in ((committed, True), ([b"aborted"] * 5, False)):
        producer.begin_transaction()
        for number, value in enumerate(values):
            producer.produce(topic, value, partition=number % PARTITIONS)
        producer.flush(SECONDS)
        (producer.commit_transaction if commit else producer.abort_transaction)(SECONDS)
    plain = [f"{tag}-plain-{number}".encode() for number in range(20)]
    _produce(bootstrap, topic, plain)
    hanging = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"open-{tag}"})
    hanging.init_transactions(SECONDS)
    hanging.begin_transaction()
    hanging.produce(topic, b"open", partition=0)
    hanging.flush(SECONDS)  # the next owner fences it: its init_transactions aborts
    return committed + plain


def _produce(bootstrap: str, topic: str, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap} | QUIET)
    failures: list[Any] = []
    for number, value in enumerate(values):
        producer.produce(
            topic, value, partition=number % PARTITIONS, on_delivery=lambda error, _: failures.append(error)
        )
    assert producer.flush(SECONDS) == 0
    assert set(failures) <= {None}


def _read_committed(bootstrap: str, topic: str) -> list[bytes]:
    """Everything committed, up to the end: the open transactions of earlier owners are aborted first."""
    tag = topic.removeprefix("topic-")
    fencing = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"open-{tag}"})
    fencing.init_transactions(SECONDS)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
        | QUIET
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
    values, ended = list[bytes](), set[int]()
    while len(ended) < PARTITIONS:
        message = consumer.poll(SECONDS)
        assert message is not None, f"{topic} has no end"
        error = message.error()
        if error is None:
            values.append(message.value() or b"")
        elif error.code() == KafkaError._PARTITION_EOF:
            ended.add(message.partition() or 0)
        else:
            raise KafkaException(error)
    consumer.close()
    return values


@contextmanager
def _member(bootstrap: str, topic: str) -> Iterator[KafkaConsumer]:
    """A consumer of the topic's group that has partition 0 without asking the group."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=f"group-{topic}", enable_auto_commit=False)
    consumer.assign([_partition_0(topic)])
    try:
        yield consumer
    finally:
        consumer.close()


def _partition_0(topic: str) -> KafkaPythonPartition:
    return KafkaPythonPartition(topic, 0)


def _commit(bootstrap: str, topic: str) -> int:
    """Commit an offset in partition 0 for the topic's group, and return it."""
    with _member(bootstrap, topic) as consumer:
        consumer.commit({_partition_0(topic): OffsetAndMetadata(7, "", -1)})
    return 7


def _committed(bootstrap: str, topic: str) -> int | None:
    with _member(bootstrap, topic) as consumer:
        found = consumer.committed(_partition_0(topic))
        return None if found is None else int(found)


def _config(admin: AdminClient, topic: str, name: str) -> str:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    return str(admin.describe_configs([resource])[resource].result(SECONDS)[name].value)


@contextmanager
def load(bootstrap: str, topic: str) -> Iterator[list[bytes]]:
    """Transactions that follow one another until the owner is killed.

    Yields the values acknowledged as committed, once there are some.
    """
    committed: list[bytes] = []
    ended, going = threading.Event(), threading.Event()

    def run() -> None:
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": "load",
                "transaction.timeout.ms": 10_000,
                "log_level": 0,
            }
        )
        number = 0
        try:
            producer.init_transactions(SECONDS)
            while not ended.is_set():
                producer.begin_transaction()
                value = b"load-%d-%d" % (id(committed), number)
                producer.produce(topic, value, partition=number % PARTITIONS)
                producer.commit_transaction(5)
                committed.append(value)
                number += 1
                if number == SOME:
                    going.set()
        except KafkaException:
            pass  # the owner was killed

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert going.wait(SECONDS), "no transactions were committed"
        yield committed
    finally:
        ended.set()
        thread.join()


@pytest.mark.torture
@pytest.mark.timeout(600)
def test_folder_exchange_after_clean_stops(owners: list[Owner]) -> None:
    content = Content()
    for step, owner in enumerate(owners):
        owner.start()
        content.check(owner.bootstrap)
        content.add(owner.bootstrap, f"clean-{step}")
        content.check(owner.bootstrap)
        owner.stop()


@pytest.mark.torture
@pytest.mark.timeout(600)
def test_folder_exchange_after_kill_9_under_load(owners: list[Owner]) -> None:
    """What was acknowledged as committed is there; what was under way is there as a whole or not at all."""
    content, acknowledged = Content(), list[bytes]()
    for step, owner in enumerate(owners):
        owner.start()
        if step:
            Producer({"bootstrap.servers": owner.bootstrap, "transactional.id": "load"} | QUIET).init_transactions(
                SECONDS
            )
            found = [value for value in _read_committed(owner.bootstrap, "topic-kill-0") if value.startswith(b"load")]
            assert len(set(found)) == len(found)
            assert set(found) >= set(acknowledged)
            content.values["topic-kill-0"] = [
                *(value for value in content.values["topic-kill-0"] if not value.startswith(b"load")),
                *found,
            ]
        content.check(owner.bootstrap)
        content.add(owner.bootstrap, f"kill-{step}")
        with load(owner.bootstrap, "topic-kill-0") as committed:
            owner.kill()
        acknowledged += committed


def test_a_changed_broker_configuration_goes_with_the_folder(owners: list[Owner]) -> None:
    kafka, odradek, *_ = owners
    kafka.start()
    change = ConfigEntry("log.cleaner.threads", "2", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[change])
    admin = AdminClient({**QUIET, "bootstrap.servers": kafka.bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(SECONDS)
    kafka.stop()
    odradek.start()
    admin = AdminClient({**QUIET, "bootstrap.servers": odradek.bootstrap})
    resource = ConfigResource(ResourceType.BROKER, "1")
    assert admin.describe_configs([resource])[resource].result(SECONDS)["log.cleaner.threads"].value == "2"
