"""Apache Kafka's tools for whoever operates a cluster: transactions that hang, features, brokers that are gone.

Those for replicas are in test_replication_tools.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from odradek import Broker, Cluster
from tests.client import transactional
from tests.client.hanging import UNVERIFIED, hang
from tests.cluster.client import leaders, produce, read_all, until
from tests.cluster.kafka_controllers import KafkaControllers, tool
from tests.cluster.mixed_cluster import until_in_sync

pytestmark = [pytest.mark.torture, pytest.mark.timeout(600)]

TOOLS = "org.apache.kafka.tools"
IDS = [f"open-{number}" for number in range(6)]
SECONDS = transactional.SECONDS


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One that lets a transaction hang."""
    with Cluster(brokers=3, settings=UNVERIFIED) as cluster:
        yield cluster
        for node in (cluster.controller, *cluster.brokers):
            assert "Traceback" not in node.log(), node.log()[-6000:]


def rows_of(said: str) -> list[list[str]]:
    """The rows of a table, without its heading."""
    return [line.split() for line in said.splitlines()[1:] if line.strip()]


def test_kafka_transactions_over_all_brokers(cluster: Cluster) -> None:
    def transactions(*arguments: str) -> str:
        return tool(f"{TOOLS}.TransactionsCommand", "--bootstrap-server", cluster.bootstrap_servers, *arguments)

    cluster.topic("opened", partitions=3)
    cluster.topic("hung")
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "transaction.timeout.ms": 600_000}
    producers = [Producer(settings | {"transactional.id": name}) for name in IDS]
    for number, producer in enumerate(producers):
        producer.init_transactions(SECONDS)
        producer.begin_transaction()
        producer.produce("opened", b"open", partition=number % 3)
        assert producer.flush(SECONDS) == 0
    leader = cluster.leader("hung", 0)
    assert leader is not None
    hang(leader.bootstrap_servers, "hung")
    listed = rows_of(transactions("list"))
    assert {row[0]: row[-1] for row in listed} == dict.fromkeys(IDS, "Ongoing") | {"hangs": "Empty"}
    assert {row[1] for row in listed} <= {str(broker.index) for broker in cluster.brokers}
    assert "opened-1" in transactions("describe", "--transactional-id", IDS[1])
    writing = rows_of(transactions("describe-producers", "--topic", "opened", "--partition", "1"))
    assert len(writing) == 2
    others = [broker.index for broker in cluster.brokers if broker != leader]
    for index in others:
        followed = rows_of(transactions("find-hanging", "--broker-id", str(index)))
        assert [row[:2] for row in followed] == [["hung", "0"]]
    transactions("abort", "--topic", "hung", "--partition", "0", "--start-offset", "0")
    assert rows_of(transactions("find-hanging", "--topic", "hung")) == []
    transactions("forceTerminateTransaction", "--transactionalId", IDS[0])
    with pytest.raises(KafkaException, match=r"(?i)fenced|epoch"):
        producers[0].commit_transaction(SECONDS)
    for producer in producers[1:]:
        producer.commit_transaction(SECONDS)
    ended = {row[0]: row[-1] for row in rows_of(transactions("list"))}
    assert ended == dict.fromkeys(IDS[1:], "CompleteCommit") | {IDS[0]: "Empty", "hangs": "Empty"}


def test_features_and_the_quorum_through_brokers(brokers: dict[int, Broker]) -> None:
    def features(node_id: int, *arguments: str) -> str:
        return tool(f"{TOOLS}.FeatureCommand", "--bootstrap-server", brokers[node_id].bootstrap_servers, *arguments)

    def level(node_id: int) -> str:
        found = re.search(r"Feature: share\.version.*FinalizedVersionLevel: (\d+)", features(node_id, "describe"))
        assert found is not None
        return found[1]

    before = level(1)
    assert "can be" in features(1, "disable", "--feature", "share.version", "--dry-run")
    assert level(1) == before
    features(1, "disable", "--feature", "share.version")
    until(lambda: {level(node_id) for node_id in brokers} == {"0"}, "every broker knows the new level")
    features(2, "upgrade", "--feature", f"share.version={before}")
    until(lambda: {level(node_id) for node_id in brokers} == {before}, "it is the old level again")
    for broker in brokers.values():
        asked = "--bootstrap-server", broker.bootstrap_servers, "describe", "--replication"
        assert tool(f"{TOOLS}.MetadataQuorumCommand", *asked).count("Observer") == len(brokers)


def test_a_broker_is_unregistered_through_another(controllers: KafkaControllers, brokers: dict[int, Broker]) -> None:
    def cluster_tool(*arguments: str, succeeds: bool = True) -> str:
        asked = *arguments, "--bootstrap-server", brokers[1].bootstrap_servers
        return tool(f"{TOOLS}.ClusterTool", *asked, succeeds=succeeds)

    def known() -> set[str]:
        """The ids of brokers, also of those that are fenced."""
        return {row[0] for row in rows_of(cluster_tool("list-endpoints", "--include-fenced-brokers"))}

    with Broker(controllers.broker_settings(4), start_timeout=90):
        until(lambda: "4" in known(), "it is known")
    assert "4" in known()
    cluster_tool("unregister", "--id", "4")
    until(lambda: known() == set(map(str, brokers)), "it is known no more")
    assert "4" in cluster_tool("unregister", "--id", "4", succeeds=False)


def test_unclean_leader_election_and_partitions_that_cannot_be_written(
    brokers: dict[int, Broker], tmp_path: Path
) -> None:
    here = "--bootstrap-server", brokers[3].bootstrap_servers
    admin = AdminClient({"bootstrap.servers": brokers[3].bootstrap_servers})
    wanted = {"fragile": {"min.insync.replicas": "1"}, "strict": {"min.insync.replicas": "2"}}
    for name, config in wanted.items():
        made = NewTopic(name, config=config, num_partitions=1, replica_assignment=[[1, 2]])
        admin.create_topics([made])[name].result(SECONDS)
        until_in_sync(admin, 2, only=name)
    assert produce(brokers[3].bootstrap_servers, "fragile", ["kept", "also kept"], 1) == 2

    def found(kind: str) -> list[str]:
        said = tool(f"{TOOLS}.TopicCommand", *here, "--describe", "--exclude-internal", kind)
        return [name for name in wanted if f"Topic: {name}" in said]

    assert found("--under-min-isr-partitions") == found("--unavailable-partitions") == []
    brokers[2].kill()
    try:
        until(lambda: found("--under-min-isr-partitions") == ["strict"], "its ISR is too small")
        until(lambda: found("--at-min-isr-partitions") == ["fragile"], "its ISR is just enough")
        brokers[1].kill()
        until(lambda: set(found("--unavailable-partitions")) == set(wanted), "they have no leader")
        brokers[2].start()
        plan = tmp_path / "plan.json"
        plan.write_text(json.dumps({"partitions": [{"topic": "fragile", "partition": 0}]}))
        election = "--election-type", "unclean", "--path-to-json-file", str(plan)
        said = tool(f"{TOOLS}.LeaderElectionCommand", *here, *election)
        assert "Successfully completed leader election (UNCLEAN) for partitions fragile-0" in said
        assert leaders(admin, "fragile") == {0: 2}
    finally:
        for node_id in (1, 2):
            if not brokers[node_id].running:
                brokers[node_id].start()
    for name in wanted:
        until_in_sync(admin, 2, only=name)
    assert read_all(brokers[3].bootstrap_servers, "fragile", 1, 2) == ["kept", "also kept"]
