"""Apache Kafka's own tools for replicas, against three brokers of ours."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from odradek import Broker
from tests.cluster.client import leaders, produce, until
from tests.cluster.kafka_controllers import java, tool

TOPIC = "tooled"
RECORDS = 900
TOPICS = "org.apache.kafka.tools.TopicCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
ELECTION = "org.apache.kafka.tools.LeaderElectionCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
VERIFICATION = "org.apache.kafka.tools.ReplicaVerificationTool"


def bootstrap_of(brokers: dict[int, Broker]) -> str:
    return ",".join(broker.bootstrap_servers for broker in brokers.values())


@pytest.fixture
def admin(brokers: dict[int, Broker]) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap_of(brokers)})


def replicas_of(admin: AdminClient) -> dict[int, list[int]]:
    return {index: one.replicas for index, one in admin.list_topics(TOPIC, timeout=30).topics[TOPIC].partitions.items()}


def until_all_in_sync(admin: AdminClient) -> None:
    def is_in_sync() -> bool:
        partitions = admin.list_topics(TOPIC, timeout=30).topics[TOPIC].partitions.values()
        return all(sorted(one.isrs) == sorted(one.replicas) for one in partitions)

    until(is_in_sync, "all replicas are in sync", seconds=90)


@pytest.fixture
def topic(brokers: dict[int, Broker], admin: AdminClient) -> None:
    if TOPIC not in admin.list_topics(timeout=30).topics:
        admin.create_topics([NewTopic(TOPIC, 3, 3)])[TOPIC].result(30)
        until(lambda: len(leaders(admin, TOPIC)) == 3, "there are leaders")
        produce(bootstrap_of(brokers), TOPIC, (f"value-{number}" for number in range(RECORDS)), 3)
    until_all_in_sync(admin)


def set_minimum(admin: AdminClient, in_sync: int) -> None:
    """Set the topic's `min.insync.replicas`."""
    change = ConfigEntry("min.insync.replicas", str(in_sync), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=[change])
    admin.incremental_alter_configs([resource])[resource].result(30)


def test_under_replicated_partitions(brokers: dict[int, Broker], admin: AdminClient, topic: None) -> None:
    """The minimum changes while the broker is out, by which it is no eligible leader (ELR): a change of partitions."""
    set_minimum(admin, 3)
    asked = TOPICS, "--bootstrap-server", bootstrap_of(brokers), "--describe", "--topic", TOPIC
    assert tool(*asked, "--under-replicated-partitions").split() == []
    brokers[3].kill()
    try:
        until(lambda: len(set(leaders(admin, TOPIC).values())) == 2, "the controller has fenced the broker")
        said = tool(*asked, "--under-replicated-partitions")
        set_minimum(admin, 1)
    finally:
        brokers[3].start()
    assert len(re.findall(r"\bElr: 3\b", said)) == 3, said
    until_all_in_sync(admin)


def test_reassignment_with_a_replication_throttle_and_election(
    brokers: dict[int, Broker], admin: AdminClient, topic: None, tmp_path: Path
) -> None:
    bootstrap = "--bootstrap-server", bootstrap_of(brokers)
    wanted = {0: [3, 1], 1: [1, 2], 2: [2, 3]}
    partitions = [{"topic": TOPIC, "partition": index, "replicas": one} for index, one in wanted.items()]
    (tmp_path / "plan.json").write_text(json.dumps({"version": 1, "partitions": partitions}))
    plan = *bootstrap, "--reassignment-json-file", str(tmp_path / "plan.json")
    said = tool(REASSIGN, *plan, "--execute", "--throttle", "10000000")
    assert "Successfully started partition reassignment" in said, said
    until(lambda: replicas_of(admin) == wanted, "the replicas are as wanted")
    said = tool(REASSIGN, *plan, "--verify")
    assert said.count("is completed") == 3, said
    assert "Clearing topic-level throttles" in said
    said = tool(ELECTION, *bootstrap, "--election-type", "preferred", "--all-topic-partitions")
    until(lambda: leaders(admin, TOPIC) == {0: 3, 1: 1, 2: 2}, "the preferred replicas lead")
    until_all_in_sync(admin)


def test_kip_392_a_consumer_reads_from_the_follower_in_its_rack(
    brokers: dict[int, Broker], admin: AdminClient, topic: None
) -> None:
    leader = leaders(admin, TOPIC)[0]
    follower = next(node_id for node_id in replicas_of(admin)[0] if node_id != leader)
    read_from: set[int] = set()

    def note(statistics: str) -> None:
        partitions = json.loads(statistics)["topics"].get(TOPIC, {}).get("partitions", {})
        read_from.update(one["broker"] for index, one in partitions.items() if index == "0")

    settings = {"bootstrap.servers": bootstrap_of(brokers), "group.id": "in-a-rack", "client.rack": f"rack-{follower}"}
    consumer = Consumer(settings | {"statistics.interval.ms": 100, "stats_cb": note})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    try:
        values: set[bytes | None] = set()
        while len(values) < RECORDS / 3:
            message = consumer.poll(30)
            assert message is not None, f"{len(values)} records were read from {read_from}"
            assert message.error() is None
            values.add(message.value())
        until(lambda: consumer.poll(0.1) is None and follower in read_from, "the follower is read from")
    finally:
        consumer.close()


def test_verification_of_replicas(brokers: dict[int, Broker], topic: None) -> None:
    """It fetches from followers too, and compares what it gets."""
    asked = "--broker-list", bootstrap_of(brokers), "--topics-include", TOPIC, "--time", "-2"
    command = java(VERIFICATION, *asked, "--report-interval-ms", "1000")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as verification:
        assert verification.stdout is not None
        said: list[str] = []
        try:
            for line in verification.stdout:
                said.append(line)
                if "max lag is" in line:
                    break
        finally:
            verification.kill()
    assert "max lag is 0 for partition" in said[-1], said
    assert not any("mismatch" in line or "differ" in line for line in said), said


def test_log_dirs(brokers: dict[int, Broker], admin: AdminClient, topic: None) -> None:
    bootstrap = bootstrap_of(brokers)
    said = tool(LOG_DIRS, "--bootstrap-server", bootstrap, "--describe", "--topic-list", TOPIC)
    described = json.loads(next(line for line in said.splitlines() if line.startswith("{")))
    sizes: dict[str, set[int]] = {}
    for broker in described["brokers"]:
        for folder in broker["logDirs"]:
            assert folder["error"] is None
            for partition in folder["partitions"]:
                assert partition["offsetLag"] == 0
                sizes.setdefault(partition["partition"], set()).add(partition["size"])
    assert sorted(sizes) == [f"{TOPIC}-{index}" for index in range(3)]
    assert all(len(size) == 1 for size in sizes.values()), sizes
