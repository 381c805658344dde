"""Clusters of brokers of ours and of Apache Kafka's, under controllers of Apache Kafka."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

from confluent_kafka.admin import AdminClient

from odradek import Broker
from tests.client.java_tools import JVM_OPTIONS
from tests.cluster.gates import Gate
from tests.cluster.java_broker import JavaBroker
from tests.cluster.kafka_controllers import CLUSTER_ID, KafkaControllers
from tests.ports import free_ports

JAVA_SETTINGS: dict[str, object] = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}


class AnyBroker(Protocol):
    """What both kinds can do. The gate is what other brokers reach it through."""

    gate: Gate

    def start(self) -> None: ...
    def kill(self) -> None: ...
    def end(self) -> None: ...
    def freeze(self) -> None: ...
    def thaw(self) -> None: ...
    def lose_disks(self) -> None: ...

    @property
    def address(self) -> str: ...
    @property
    def folder(self) -> Path: ...
    @property
    def pid(self) -> int: ...


class Ours:
    def __init__(self, broker: Broker, gate: Gate) -> None:
        self.broker = broker
        self.gate = gate

    @property
    def address(self) -> str:
        return self.broker.bootstrap_servers

    @property
    def folder(self) -> Path:
        return Path(self.broker.data_dir)

    @property
    def pid(self) -> int:
        return self.broker.pid

    def start(self) -> None:
        self.broker.start()

    def kill(self) -> None:
        self.broker.kill()

    def end(self) -> None:
        """Stop it; it must not have met a bug."""
        self.broker.stop()
        log = self.broker.log()
        assert "Traceback" not in log, log[-6000:]

    def freeze(self) -> None:
        os.kill(self.broker.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.broker.pid, signal.SIGCONT)

    def lose_disks(self) -> None:
        self.broker.kill()
        shutil.rmtree(self.folder)


class Theirs:
    def __init__(self, broker: JavaBroker, gate: Gate) -> None:
        self.broker = broker
        self.gate = gate

    @property
    def address(self) -> str:
        return self.broker.bootstrap

    @property
    def folder(self) -> Path:
        return self.broker.data

    @property
    def pid(self) -> int:
        return self.broker.pid

    def start(self) -> None:
        self.broker.start()

    def kill(self) -> None:
        self.broker.kill()

    def end(self) -> None:
        self.broker.stop()

    def freeze(self) -> None:
        self.broker.freeze()

    def thaw(self) -> None:
        self.broker.thaw()

    def lose_disks(self) -> None:
        self.broker.lose_disks()


def keep_log(broker: Broker, path: Path) -> None:
    """Copy the log, which goes away with the broker, for whoever looks at a test that has failed."""
    path.write_text(broker.log())


@contextmanager
def mixed(
    controllers: KafkaControllers,
    folder: Path,
    ours: int,
    theirs: int,
    settings: Mapping[str, object] | None = None,
    jvm: Sequence[str] = JVM_OPTIONS,
    java_settings: Mapping[str, object] | None = None,
) -> Iterator[dict[int, AnyBroker]]:
    """That many brokers of each kind, by id; those of ours come first. `java_settings` are for theirs alone."""
    with ExitStack() as stack:
        found: dict[int, AnyBroker] = {}
        for node_id in range(1, ours + theirs + 1):
            port, replication_port = free_ports(2)
            gate = stack.enter_context(Gate(replication_port))
            own = {
                "listeners": f"PLAINTEXT://127.0.0.1:{port},REPLICATION://127.0.0.1:{replication_port}",
                "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port},REPLICATION://127.0.0.1:{gate.port}",
                "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,REPLICATION:PLAINTEXT",
                "inter.broker.listener.name": "REPLICATION",
                **(settings or {}),
            }
            if node_id <= ours:
                broker = Broker(
                    controllers.broker_settings(node_id) | own, profile="kafka", start_timeout=90, stop_timeout=60
                )
                found[node_id] = Ours(stack.enter_context(broker), gate)
                stack.callback(keep_log, broker, folder / f"odradek-{node_id}.log")
            else:
                of_java = JAVA_SETTINGS | own | dict(java_settings or {})
                java = JavaBroker(folder, node_id, CLUSTER_ID, controllers.voters, of_java, port=port, jvm=jvm)
                stack.callback(java.kill)
                java.start()
                found[node_id] = Theirs(java, gate)
        yield found


def bootstrap(brokers: dict[int, AnyBroker]) -> str:
    return ",".join(broker.address for broker in brokers.values())


def out_of_sync(admin: AdminClient, replicas: int, only: str | None = None) -> list[str]:
    """The partitions, of all topics or one, that have fewer in-sync replicas, or no leader."""
    return [
        f"{name}-{index}: replicas {one.replicas}, in sync {one.isrs}, leader {one.leader}"
        for name, topic in admin.list_topics(only, timeout=30).topics.items()
        for index, one in topic.partitions.items()
        if len(one.isrs) < replicas or one.leader < 0
    ]


def until_in_sync(admin: AdminClient, replicas: int, seconds: float = 180, only: str | None = None) -> None:
    deadline = time.monotonic() + seconds
    while lacking := out_of_sync(admin, replicas, only):
        assert time.monotonic() < deadline, f"not in sync after {seconds} s: {lacking}"
        time.sleep(0.1)
