"""Clusters of brokers of ours and of Apache Kafka's, under controllers of Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

from confluent_kafka.admin import AdminClient

from odradek import Broker
from tests.cluster.client import until
from tests.cluster.java_broker import JavaBroker
from tests.cluster.kafka_controllers import CLUSTER_ID, KafkaControllers

JAVA_SETTINGS = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}


class AnyBroker(Protocol):
    """What both kinds can do."""

    def start(self) -> None: ...
    def kill(self) -> None: ...
    def end(self) -> None: ...

    @property
    def address(self) -> str: ...
    @property
    def folder(self) -> Path: ...


class Ours:
    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    @property
    def address(self) -> str:
        return self.broker.bootstrap_servers

    @property
    def folder(self) -> Path:
        return Path(self.broker.data_dir)

    def start(self) -> None:
        self.broker.start()

    def kill(self) -> None:
        self.broker.kill()

    def end(self) -> None:
        """Stop it; it must not have met a bug."""
        self.broker.stop()
        log = self.broker.log()
        assert "Traceback" not in log, log[-6000:]


class Theirs:
    def __init__(self, broker: JavaBroker) -> None:
        self.broker = broker

    @property
    def address(self) -> str:
        return self.broker.bootstrap

    @property
    def folder(self) -> Path:
        return self.broker.data

    def start(self) -> None:
        self.broker.start()

    def kill(self) -> None:
        self.broker.kill()

    def end(self) -> None:
        self.broker.stop()


@contextmanager
def mixed(controllers: KafkaControllers, folder: Path, ours: int, theirs: int) -> Iterator[dict[int, AnyBroker]]:
    """That many brokers of each kind, by id; those of ours come first."""
    with ExitStack() as stack:
        found: dict[int, AnyBroker] = {}
        for node_id in range(1, ours + 1):
            broker = stack.enter_context(Broker(controllers.broker_settings(node_id), start_timeout=90))
            found[node_id] = Ours(broker)
        for node_id in range(ours + 1, ours + theirs + 1):
            java = JavaBroker(folder, node_id, CLUSTER_ID, controllers.voters, JAVA_SETTINGS)
            stack.callback(java.kill)
            java.start()
            found[node_id] = Theirs(java)
        yield found


def bootstrap(brokers: dict[int, AnyBroker]) -> str:
    return ",".join(broker.address for broker in brokers.values())


def in_sync(admin: AdminClient, topic: str) -> dict[int, list[int]]:
    """The in-sync replicas of each partition."""
    partitions = admin.list_topics(topic, timeout=10).topics[topic].partitions
    return {index: sorted(one.isrs) for index, one in partitions.items()}


def until_in_sync(admin: AdminClient, topic: str, replicas: int) -> None:
    until(
        lambda: all(len(isr) == replicas for isr in in_sync(admin, topic).values()),
        f"all replicas of {topic} are in sync",
        seconds=90,
    )
