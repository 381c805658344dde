"""A cluster of Apache Kafka's brokers moves to brokers of ours, and back, broker by broker, while clients work.

As docs/cluster.md says: new brokers beside the old ones, a reassignment for each broker, and the old one is stopped and
unregistered. It takes many JVMs, and so runs with --torture alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from odradek import Broker
from tests.cluster.client import until
from tests.cluster.java_broker import JavaBroker
from tests.cluster.kafka_controllers import CLUSTER_ID, KafkaControllers, tool
from tests.cluster.load import Load, check_replicas, complaints
from tests.cluster.mixed_cluster import until_in_sync

TOOLS = "org.apache.kafka.tools"
TOPIC = "moved"
PARTITIONS = 3
FEW_PARTITIONS = {"offsets.topic.num.partitions": "2", "transaction.state.log.num.partitions": "2"}
FIRST_OF_OURS = 11
GROUP = "readers"
SECONDS = 240


@dataclass
class Member:
    """A broker of either kind that runs."""

    address: str
    folder: Path
    end: Callable[[], object]


class Moving:
    """The brokers that run, by id, and what their clients have done."""

    def __init__(self, controllers: KafkaControllers, folder: Path, replicas: int) -> None:
        self.controllers = controllers
        self.folder = folder
        self.replicas = replicas
        self.brokers: dict[int, Member] = {}
        self.logs: list[Callable[[], str]] = []
        self.read: list[bytes] = []
        self.written: list[bytes] = []
        self._settings = {
            **FEW_PARTITIONS,
            "offsets.topic.replication.factor": str(replicas),
            "transaction.state.log.replication.factor": str(replicas),
            "transaction.state.log.min.isr": "1",
        }

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.address for broker in self.brokers.values())

    @property
    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap})

    def start_theirs(self, stack: ExitStack, node_id: int) -> None:
        java = JavaBroker(self.folder, node_id, CLUSTER_ID, self.controllers.voters, self._settings)
        stack.callback(java.kill)
        java.start()
        self.brokers[node_id] = Member(java.bootstrap, java.data, java.stop)

    def start_ours(self, stack: ExitStack, node_id: int) -> None:
        settings = {**self.controllers.broker_settings(node_id), **self._settings}
        broker = stack.enter_context(Broker(settings, start_timeout=90, stop_timeout=60))
        self.brokers[node_id] = Member(broker.bootstrap_servers, broker.data_dir, broker.stop)
        self.logs.append(broker.log)

    def move(self, old: int, new: int) -> None:
        """All replicas of a broker go to another one, which it leaves the cluster to."""
        topics = self.admin.list_topics(timeout=60).topics
        wanted = [
            {
                "topic": name,
                "partition": index,
                "replicas": [new if node_id == old else node_id for node_id in partition.replicas],
            }
            for name, topic in topics.items()
            for index, partition in topic.partitions.items()
            if old in partition.replicas
        ]
        plan = self.folder / f"{old}-to-{new}.json"
        plan.write_text(json.dumps({"version": 1, "partitions": wanted}))
        command = f"{TOOLS}.reassign.ReassignPartitionsCommand"
        file = "--reassignment-json-file", str(plan)
        said = tool(command, "--bootstrap-server", self.bootstrap, *file, "--execute", "--throttle", "100000000")
        assert "Successfully started" in said
        until(lambda: old not in self._holders(), f"broker {old} has no replicas", SECONDS)
        until_in_sync(self.admin, self.replicas, only=TOPIC)
        said = tool(command, "--bootstrap-server", self.bootstrap, *file, "--verify")
        assert said.count("is completed") == len(wanted), said
        topics_tool = f"{TOOLS}.TopicCommand", "--bootstrap-server", self.bootstrap, "--describe"
        until(lambda: not tool(*topics_tool, "--under-replicated-partitions").strip(), "all are replicated", SECONDS)
        asked = "--bootstrap-server", self.bootstrap, "--describe", "--broker-list", str(old)
        until(lambda: not held(tool(f"{TOOLS}.LogDirsCommand", *asked)), f"the folders of {old} are empty", SECONDS)
        self.brokers.pop(old).end()
        tool(f"{TOOLS}.ClusterTool", "unregister", "--bootstrap-server", self.bootstrap, "--id", str(old))

    def _holders(self) -> set[int]:
        topics = self.admin.list_topics(timeout=60).topics.values()
        return {node_id for topic in topics for one in topic.partitions.values() for node_id in one.replicas}

    def work(self, number: int) -> None:
        """A transaction, and a group that goes on where it has committed."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "transactional.id": "mover"})
        producer.init_transactions(SECONDS)
        for commits in (False, True):
            producer.begin_transaction()
            value = f"transaction-{number}-{commits}".encode()
            producer.produce("transactions", value, partition=0)
            if commits:
                producer.commit_transaction(SECONDS)
                self.written.append(value)
            else:
                producer.flush(SECONDS)
                producer.abort_transaction(SECONDS)
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": GROUP,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
            }
        )
        consumer.subscribe(["transactions"])
        message = None
        while message is None:
            message = consumer.poll(1)
        assert message.error() is None, message.error()
        self.read.append(message.value() or b"")
        consumer.commit(message=message, asynchronous=False)
        (at,) = consumer.committed([TopicPartition("transactions", 0)], SECONDS)
        assert at.offset == (message.offset() or 0) + 1
        consumer.close()


def held(said: str) -> list[str]:
    """The partitions that kafka-log-dirs has found."""
    described = json.loads(next(line for line in said.splitlines() if line.startswith("{")))
    folders = [folder for broker in described["brokers"] for folder in broker["logDirs"]]
    assert folders and all(folder["error"] is None for folder in folders), said
    return [partition["partition"] for folder in folders for partition in folder["partitions"]]


@pytest.mark.torture
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("count", [1, 3])
def test_a_cluster_moves_to_odradek_and_back(tmp_path: Path, count: int) -> None:
    settings = [f"{name}={value}" for name, value in FEW_PARTITIONS.items()]
    with KafkaControllers(tmp_path, settings=settings) as controllers, ExitStack() as stack:
        theirs, ours = range(1, count + 1), range(FIRST_OF_OURS, FIRST_OF_OURS + count)
        moving = Moving(controllers, tmp_path, count)
        for node_id in theirs:
            moving.start_theirs(stack, node_id)
        admin = moving.admin  # its answers come as long as somebody holds it
        for name, partitions in ((TOPIC, PARTITIONS), ("transactions", 1)):
            admin.create_topics([NewTopic(name, partitions, count)])[name].result(60)
        moving.work(0)
        with Load(moving.bootstrap, TOPIC, PARTITIONS, "load") as load:
            for node_id in ours:
                moving.start_ours(stack, node_id)
            for old, new in zip(theirs, ours, strict=True):
                moving.move(old, new)
                moving.work(old)
            assert sorted(moving.brokers) == list(ours)
            back = range(21, 21 + count)
            for node_id in back:
                moving.start_theirs(stack, node_id)
            for old, new in zip(ours, back, strict=True):
                moving.move(old, new)
                moving.work(old)
        assert load.failed == []
        assert moving.read == moving.written
        until_in_sync(moving.admin, count, only=TOPIC)
        last = list(moving.brokers.values())
        for broker in last:
            broker.end()
        folders = [broker.folder for broker in last]
        assert check_replicas(folders, TOPIC, PARTITIONS, [load]) >= len(load.acknowledged) > 0
        for folder in folders:
            assert complaints(folder) == []
        for log in moving.logs:
            assert "Traceback" not in log(), log()[-6000:]
