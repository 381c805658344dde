"""Brokers of Apache Kafka under a controller of ours, beside a broker of ours, and Kafka's tools for all of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from odradek import Cluster, ControlError
from tests.cluster.client import until
from tests.cluster.java_broker import JavaBroker
from tests.cluster.kafka_controllers import tool
from tests.cluster.load import Load, check_replicas, complaints
from tests.cluster.mixed_cluster import until_in_sync

JAVA_IDS = (5, 6)
PARTITIONS = 3
SESSION_MS = 6000
COUNTS = {"offsets.topic.num.partitions": "12", "transaction.state.log.num.partitions": "12"}
"""The same at all brokers: a broker of Kafka's goes by its setting, even if another one has created the topic."""
JAVA_SETTINGS = {
    **COUNTS,
    "broker.session.timeout.ms": str(SESSION_MS),
    "broker.heartbeat.interval.ms": "500",
    "offsets.topic.replication.factor": "3",
}
TOOLS = "org.apache.kafka.tools"


class Mixed:
    """Our controller, one broker of ours, and two of Apache Kafka."""

    def __init__(self, cluster: Cluster, java: dict[int, JavaBroker]) -> None:
        self.cluster = cluster
        self.java = java
        self.bootstrap = ",".join([cluster.bootstrap_servers, *(broker.bootstrap for broker in java.values())])
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap})

    def create(self, name: str, partitions: int = PARTITIONS) -> None:
        made = self.admin.create_topics([NewTopic(name, partitions, 3, config={"min.insync.replicas": "2"})])
        made[name].result(30)
        until_in_sync(self.admin, 3, only=name)

    def leaders(self, name: str) -> dict[int, int]:
        found = self.admin.list_topics(name, timeout=30).topics[name].partitions
        return {index: one.leader for index, one in found.items()}

    def tool(self, name: str, *arguments: str, succeeds: bool = True) -> str:
        return tool(f"{TOOLS}.{name}", "--bootstrap-server", self.bootstrap, *arguments, succeeds=succeeds)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mixed]:
    folder = tmp_path_factory.mktemp("java")
    settings = {"broker.session.timeout.ms": SESSION_MS, "default.replication.factor": 3, **COUNTS}
    with Cluster(brokers=1, settings=settings) as cluster, ExitStack() as stack:
        controller = f"{cluster.controller.index}@{cluster.controller.addresses[0]}"
        cluster_id = cluster.control.describe()["cluster"]
        java = {number: JavaBroker(folder, number, cluster_id, controller, JAVA_SETTINGS) for number in JAVA_IDS}
        for broker in java.values():
            stack.callback(broker.kill)
            broker.launch()
        for broker in java.values():
            broker.await_ready()
        yield Mixed(cluster, java)
        for log in (cluster.controller.log(), cluster.brokers[0].log()):
            assert "Traceback" not in log, log[-6000:]


@pytest.mark.torture
@pytest.mark.timeout(600)
def test_java_brokers_are_killed_fenced_elected_and_lose_nothing(mixed: Mixed, tmp_path: Path) -> None:
    mixed.create("replicated")
    with Load(mixed.bootstrap, "replicated", PARTITIONS, "load") as load:
        for number, broker in mixed.java.items():
            broker.kill()
            until(lambda gone=number: gone not in mixed.leaders("replicated").values(), "others lead")  # type: ignore[misc]
            broker.start()
            until_in_sync(mixed.admin, 3, only="replicated")
        java = mixed.java[JAVA_IDS[0]]
        assert java.stop() in (0, 143)  # in good order: its leaders have moved before
        assert JAVA_IDS[0] not in mixed.leaders("replicated").values()
        java.start()
        until_in_sync(mixed.admin, 3, only="replicated")
    assert load.failed == []
    assert load.acknowledged
    until_in_sync(mixed.admin, 3, only="replicated")
    folders = [mixed.cluster.brokers[0].data_dir, *(broker.data for broker in mixed.java.values())]
    until(lambda: _are_equal(folders, load), "the replicas are equal")
    assert check_replicas(folders, "replicated", PARTITIONS, [load]) >= len(load.acknowledged)
    assert complaints(mixed.cluster.brokers[0].data_dir) == []


def _are_equal(folders: list[Path], load: Load) -> bool:
    try:
        check_replicas(folders, "replicated", PARTITIONS, [load])
    except AssertionError:
        return False
    return True


@pytest.mark.timeout(300)
def test_kafkas_tools_reassign_elect_and_describe(mixed: Mixed, tmp_path: Path) -> None:
    mixed.create("assigned", 1)
    plan = tmp_path / "plan.json"
    wanted = {"version": 1, "partitions": [{"topic": "assigned", "partition": 0, "replicas": [6, 0]}]}
    plan.write_text(json.dumps(wanted))
    reassign = "reassign.ReassignPartitionsCommand"
    assert "Successfully started" in mixed.tool(reassign, "--reassignment-json-file", str(plan), "--execute")
    until(
        lambda: "is completed" in mixed.tool(reassign, "--reassignment-json-file", str(plan), "--verify"),
        "the reassignment is over",
    )
    assert "Replicas: 6,0" in mixed.tool("TopicCommand", "--describe", "--topic", "assigned")
    until_in_sync(mixed.admin, 2, only="assigned")
    elected = tmp_path / "elect.json"
    elected.write_text(json.dumps({"partitions": [{"topic": "assigned", "partition": 0}]}))
    mixed.cluster.move_leader("assigned", 0, 0)
    until(lambda: mixed.leaders("assigned") == {0: 0}, "each broker knows the leader")  # any of them may be asked
    said = mixed.tool("LeaderElectionCommand", "--election-type", "preferred", "--path-to-json-file", str(elected))
    assert "Successfully completed leader election" in said
    until(lambda: mixed.leaders("assigned") == {0: 6}, "each broker knows the leader that was elected")
    status = mixed.tool("MetadataQuorumCommand", "describe", "--status")
    assert re.search(rf"LeaderId:\s+{mixed.cluster.controller.index}\b", status)
    assert all(f'"id": {number}' in status for number in (0, *JAVA_IDS))
    lag = mixed.tool("MetadataQuorumCommand", "describe", "--replication")
    assert "Leader" in lag
    assert lag.count("Observer") == 1 + len(JAVA_IDS)
    assert "metadata.version" in mixed.tool("FeatureCommand", "describe")
    assert mixed.tool("TopicCommand", "--describe", "--under-replicated-partitions").strip() == ""
    assert '"error":null' in mixed.tool("LogDirsCommand", "--describe")


def spread(mixed: Mixed, topic: str, records: int) -> None:
    """A topic with a partition at each broker, and so many records in each."""
    mixed.admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
    until(lambda: set(mixed.leaders(topic).values()) == {0, *JAVA_IDS}, "each broker leads a partition")
    producer = Producer({"bootstrap.servers": mixed.bootstrap})
    for number in range(records * PARTITIONS):
        producer.produce(topic, str(number).encode(), partition=number % PARTITIONS)
    assert producer.flush(60) == 0


def coordinated_by_kafka(mixed: Mixed, kind: str, prefix: str) -> str:
    """A group, or a transactional id, whose coordinator is a broker of Kafka's."""
    control = mixed.cluster.brokers[0].control
    names = (f"{prefix}-{number}" for number in range(200))
    return next(n for n in names if control.get("/cluster/coordinator", **{kind: n})["broker"] in JAVA_IDS)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_broker_of_ours_says_of_a_group_of_kafkas_what_kafkas_tools_say(mixed: Mixed, protocol: str) -> None:
    """Leaders and coordinators are brokers of Kafka's, which have no control interface."""
    topic, broker = f"spread-{protocol}", mixed.cluster.brokers[0]
    spread(mixed, topic, 14)
    first = Consumer({"bootstrap.servers": mixed.bootstrap, "group.id": "makes the topic of offsets"})
    first.subscribe([topic])
    until(lambda: first.poll(0.1) is None and len(first.assignment()) == PARTITIONS, "there are coordinators")
    first.close()
    name = coordinated_by_kafka(mixed, "group", protocol)
    consumer = Consumer({"bootstrap.servers": mixed.bootstrap, "group.id": name, "group.protocol": protocol})
    consumer.subscribe([topic])
    until(lambda: consumer.poll(0.1) is None and len(consumer.assignment()) == PARTITIONS, "it has its partitions")
    committed = [TopicPartition(topic, index, offset) for index, offset in enumerate((2, 5, 14))]
    consumer.commit(offsets=committed, asynchronous=False)
    group = broker.group(name).wait(state="Stable", members=1, lag=21, timeout=30)
    assert group.committed() == {(topic, 0): 2, (topic, 1): 5, (topic, 2): 14}
    assert group.lag() == {(topic, 0): 12, (topic, 1): 9, (topic, 2): 0}
    said = mixed.tool("consumer.group.ConsumerGroupCommand", "--describe", "--group", name)
    rows = [line.split() for line in said.splitlines() if f" {topic} " in line]
    assert {(topic, int(row[2])): int(row[5]) for row in rows} == group.lag()
    (member,) = group.members
    assert (member.assignment, member.topics) == ({topic: [0, 1, 2]}, [topic])
    assert name in broker.groups()
    rules = broker.explain(group=name).rules
    assert "fetches_are_seen_elsewhere" in rules
    assert not {"partition_is_offline", "offsets_are_unknown"} & {*rules}
    assert set(broker.explain(topic=topic).rules) == {"has_records", "is_read_by"}
    consumer.close()


@pytest.mark.timeout(300)
def test_a_broker_of_ours_says_of_a_transaction_of_kafkas_what_it_holds(mixed: Mixed) -> None:
    broker = mixed.cluster.brokers[0]
    spread(mixed, "held", 1)
    Producer({"bootstrap.servers": mixed.bootstrap, "transactional.id": "makes the topic"}).init_transactions(60)
    name = coordinated_by_kafka(mixed, "transactional_id", "tx")
    producer = Producer({"bootstrap.servers": mixed.bootstrap, "transactional.id": name})
    producer.init_transactions(60)
    producer.begin_transaction()
    for index in range(PARTITIONS):
        producer.produce("held", b"open", partition=index)
    assert producer.flush(60) == 0
    transaction = broker.transaction(name).wait(state="Ongoing", timeout=30)
    assert sorted(transaction.partitions) == [("held", index) for index in range(PARTITIONS)]
    assert name in broker.transactions()
    held = [one.text for one in broker.explain(topic="held") if one.rule == "held_by_transaction"]
    assert [f"transactional id {name}" in text for text in held] == [True] * PARTITIONS
    with pytest.raises(ControlError, match="ask that broker"):
        transaction.abort()
    producer.abort_transaction(60)
    transaction.wait(state="CompleteAbort", timeout=30)


@pytest.mark.timeout(300)
def test_a_broker_that_left_for_good_is_unregistered(mixed: Mixed) -> None:
    gone = mixed.java[JAVA_IDS[1]]
    gone.stop()
    listed = "--bootstrap-server", mixed.cluster.bootstrap_servers
    said = tool(f"{TOOLS}.ClusterTool", "unregister", *listed, "--id", str(JAVA_IDS[1]))
    assert f"Broker {JAVA_IDS[1]} is no longer registered" in said
    known = [broker["id"] for broker in mixed.cluster.control.describe()["brokers"]]
    assert known == [0, JAVA_IDS[0]]
    again = tool(f"{TOOLS}.ClusterTool", "unregister", *listed, "--id", "77", succeeds=False)
    assert "77" in again
    gone.start()
    until(
        lambda: (
            {"id": JAVA_IDS[1], "fenced": False, "in_controlled_shutdown": False}
            in mixed.cluster.control.describe()["brokers"]
        ),
        "it is back",
    )
