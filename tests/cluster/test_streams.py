"""Kafka Streams, exactly once, through the kill of each of three brokers in turn, under either kind of controller."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from odradek import Cluster
from tests.client import java_tools
from tests.client.word_count import INPUT, OUTPUT, check_counts, instance, words
from tests.cluster.client import produce, until
from tests.cluster.kafka_controllers import KafkaControllers
from tests.cluster.mixed_cluster import bootstrap, mixed, until_in_sync
from tests.messages import value_of

BROKERS = 3
PARTITIONS = 2
OF_CONTROLLERS = {
    "broker.session.timeout.ms": 6000,
    "broker.heartbeat.interval.ms": 1000,
    "default.replication.factor": BROKERS,
}
"""The last is for the topics that the group makes: controllers decide what the default is."""

SETTINGS: dict[str, object] = {
    **OF_CONTROLLERS,
    "min.insync.replicas": 2,
    "offsets.topic.replication.factor": BROKERS,
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.replication.factor": BROKERS,
    "transaction.state.log.min.isr": 2,
    "transaction.state.log.num.partitions": 3,
    "group.streams.session.timeout.ms": 6000,
    "group.streams.heartbeat.interval.ms": 1000,
}
WORDS = 300
"""Before each kill, and again after it."""

SECONDS = 180


class Member(Protocol):
    def kill(self) -> None: ...
    def start(self) -> object: ...


@contextmanager
def under_our_controller(folder: Path) -> Iterator[tuple[str, list[Member]]]:
    with Cluster(brokers=BROKERS, settings=SETTINGS) as cluster:
        yield cluster.bootstrap_servers, list(cluster.brokers)
        for node in (cluster.controller, *cluster.brokers):
            assert "Traceback" not in node.log(), node.log()[-6000:]


@contextmanager
def under_kafkas_controllers(folder: Path) -> Iterator[tuple[str, list[Member]]]:
    lines = [f"{name}={value}" for name, value in OF_CONTROLLERS.items()]
    with (
        KafkaControllers(folder, settings=lines) as controllers,
        mixed(controllers, folder, BROKERS, 0, SETTINGS) as brokers,
    ):
        yield bootstrap(brokers), list(brokers.values())
        for broker in brokers.values():
            broker.end()


def counted(servers: str) -> int:
    """How many words the application has counted by now, each exactly once."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "nobody",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(OUTPUT, 0, 0)])
    pairs: list[tuple[bytes | None, bytes | None]] = []
    try:
        while True:
            message = consumer.poll(SECONDS)
            assert message is not None, f"{OUTPUT} could not be read to its end in {SECONDS} s"
            error = message.error()
            if error is None:
                pairs.append((message.key(), value_of(message)))
            elif error.code() == KafkaError._PARTITION_EOF:
                return check_counts(pairs)
    finally:
        consumer.close()


@pytest.mark.torture
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("running", [under_our_controller, under_kafkas_controllers])
def test_words_are_counted_exactly_once_through_the_kill_of_each_broker(
    running: Callable[[Path], AbstractContextManager[tuple[str, list[Member]]]], tmp_path: Path
) -> None:
    if reason := java_tools.missing():
        pytest.skip(reason)
    with running(tmp_path) as (servers, brokers):
        admin = AdminClient({"bootstrap.servers": servers})
        for topic, partitions in ((INPUT, PARTITIONS), (OUTPUT, 1)):
            admin.create_topics([NewTopic(topic, partitions, BROKERS)])[topic].result(30)
        application = instance(servers, tmp_path / "application")
        sent = 0

        def send() -> None:
            nonlocal sent
            sent += produce(servers, INPUT, words(WORDS), PARTITIONS)

        def until_counted(count: int) -> None:
            until(lambda: counted(servers) >= count, f"{count} words are counted", SECONDS)

        try:
            for broker in brokers:
                send()
                until_counted(sent - WORDS + 1)
                broker.kill()
                send()
                until_counted(sent)
                broker.start()
                until_in_sync(admin, BROKERS)
            assert application.stdin is not None
            application.stdin.close()
            application.wait(60)
        finally:
            application.kill()
            application.wait()
        assert counted(servers) == sent
