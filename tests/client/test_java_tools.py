"""Apache Kafka's own command-line tools against the broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.client import corpus
from tests.client.java_tools import CONFIGS, java, said, tool

pytestmark = pytest.mark.usefixtures("java_tool")

TOPICS = "org.apache.kafka.tools.TopicCommand"
CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
GET_OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
PRODUCER_PERF = "org.apache.kafka.tools.ProducerPerformance"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
CLUSTER = "org.apache.kafka.tools.ClusterTool"
QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"
ACLS = "org.apache.kafka.tools.AclCommand"
TOKENS = "org.apache.kafka.tools.DelegationTokenCommand"


def test_topics_are_created_described_grown_and_deleted(bootstrap: str, topic: str) -> None:
    tool(TOPICS, bootstrap, "--create", "--topic", topic, "--partitions", "3", "--config", "retention.ms=3600000")
    assert topic in tool(TOPICS, bootstrap, "--list").split()
    described = tool(TOPICS, bootstrap, "--describe", "--topic", topic)
    assert "PartitionCount: 3" in described
    assert "ReplicationFactor: 1" in described
    assert "retention.ms=3600000" in described
    tool(TOPICS, bootstrap, "--alter", "--topic", topic, "--partitions", "5")
    assert "PartitionCount: 5" in tool(TOPICS, bootstrap, "--describe", "--topic", topic)
    again = java(TOPICS, "--bootstrap-server", bootstrap, "--create", "--topic", topic)
    assert again.returncode != 0
    assert "already exists" in said(again)
    tool(TOPICS, bootstrap, "--delete", "--topic", topic)
    assert topic not in tool(TOPICS, bootstrap, "--list").split()


def test_configs_of_a_topic_and_of_the_broker(bootstrap: str, topic: str) -> None:
    tool(TOPICS, bootstrap, "--create", "--topic", topic)
    of_topic = ("--entity-type", "topics", "--entity-name", topic)
    tool(
        CONFIGS,
        bootstrap,
        "--alter",
        *of_topic,
        "--add-config",
        "max.message.bytes=2000,cleanup.policy=[compact,delete]",
    )
    described = tool(CONFIGS, bootstrap, "--describe", *of_topic)
    assert "max.message.bytes=2000" in described
    assert "cleanup.policy=compact,delete" in described
    tool(CONFIGS, bootstrap, "--alter", *of_topic, "--delete-config", "max.message.bytes")
    assert "max.message.bytes" not in tool(CONFIGS, bootstrap, "--describe", *of_topic)
    everything = tool(CONFIGS, bootstrap, "--describe", "--entity-type", "brokers", "--entity-name", "1", "--all")
    assert "log.segment.bytes=1073741824" in everything
    refused = java(
        CONFIGS, "--bootstrap-server", bootstrap, "--alter", *of_topic, "--add-config", "cleanup.policy=whatever"
    )
    assert refused.returncode != 0
    tool(TOPICS, bootstrap, "--delete", "--topic", topic)


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_console_producer_and_consumer_carry_a_text(bootstrap: str, topic: str, compression: str) -> None:
    lines = corpus.text_lines()
    text = b"\n".join(lines) + b"\n"
    tool(CONSOLE_PRODUCER, bootstrap, "--topic", topic, "--compression-codec", compression, stdin=text)
    count = str(len(lines))
    where = ("--topic", topic, "--partition", "0", "--offset", "earliest", "--max-messages", count)
    assert tool(CONSOLE_CONSUMER, bootstrap, *where).encode() == text
    assert tool(GET_OFFSETS, bootstrap, "--topic", topic).strip() == f"{topic}:0:{count}"


def test_get_offsets_by_time_and_by_name(bootstrap: str, topic: str) -> None:
    tool(TOPICS, bootstrap, "--create", "--topic", topic)
    tool(CONSOLE_PRODUCER, bootstrap, "--topic", topic, stdin=b"one\ntwo\nthree\n")
    for time, offset in [("earliest", 0), ("latest", 3), ("1", 0)]:
        assert tool(GET_OFFSETS, bootstrap, "--topic", topic, "--time", time).strip() == f"{topic}:0:{offset}", time


def test_producer_performance_reaches_its_count(bootstrap: str, topic: str) -> None:
    run = java(
        PRODUCER_PERF,
        *("--topic", topic, "--num-records", "20000", "--record-size", "512", "--throughput", "-1"),
        *("--producer-props", f"bootstrap.servers={bootstrap}", "acks=all"),
    )
    assert run.returncode == 0, said(run)
    assert "20000 records sent" in run.stdout.decode()
    assert tool(GET_OFFSETS, bootstrap, "--topic", topic).strip() == f"{topic}:0:20000"


def test_log_dirs_and_cluster_id(bootstrap: str, topic: str) -> None:
    tool(TOPICS, bootstrap, "--create", "--topic", topic)
    tool(CONSOLE_PRODUCER, bootstrap, "--topic", topic, stdin=b"one\n")
    assert f'"partition":"{topic}-0"' in tool(LOG_DIRS, bootstrap, "--describe", "--topic-list", topic)
    run = java(CLUSTER, "cluster-id", "--bootstrap-server", bootstrap)
    assert run.returncode == 0, said(run)
    assert "Cluster ID: " in run.stdout.decode()


def test_the_metadata_quorum(bootstrap: str) -> None:
    status = [line.split(":", 1) for line in tool(QUORUM, bootstrap, "describe", "--status").splitlines()]
    told = {name: value.strip() for name, value in status}
    assert (told["LeaderId"], told["MaxFollowerLag"], told["CurrentObservers"]) == ("1", "0", "[]")
    assert f'{{"id": 1, "endpoints": ["PLAINTEXT://{bootstrap}"]}}' in told["CurrentVoters"]
    head, leader = tool(QUORUM, bootstrap, "describe", "--replication", "--human-readable").splitlines()
    assert head.split()[:4] == ["NodeId", "DirectoryId", "LogEndOffset", "Lag"]
    assert leader.split()[-1] == "Leader"
    assert leader.split()[2] == told["HighWatermark"]


def test_who_has_no_security_says_so(bootstrap: str, tmp_path: Path) -> None:
    listed = java(ACLS, "--bootstrap-server", bootstrap, "--list")
    assert "SecurityDisabledException" in said(listed)
    acl = ("--allow-principal", "User:u", "--operation", "Read", "--topic", "t")
    added = java(ACLS, "--bootstrap-server", bootstrap, "--add", *acl)
    assert "SecurityDisabledException: No authorizer is configured." in said(added)
    settings = tmp_path / "client.properties"
    settings.touch()
    tokens = java(TOKENS, "--bootstrap-server", bootstrap, "--describe", "--command-config", str(settings))
    assert "UnsupportedByAuthenticationException" in said(tokens)
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required username=u password=p;"
    settings.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={login}\n")
    refused = java(TOPICS, "--bootstrap-server", bootstrap, "--list", "--command-config", str(settings))
    assert "enabled mechanisms are []" in said(refused)


@pytest.mark.parametrize("kind", ["users", "clients", "ips"])
def test_nobody_has_quotas_or_credentials(bootstrap: str, kind: str) -> None:
    name = "127.0.0.1" if kind == "ips" else "someone"
    assert not tool(CONFIGS, bootstrap, "--describe", "--entity-type", kind).strip()
    assert not tool(CONFIGS, bootstrap, "--describe", "--entity-type", kind, "--entity-name", name).strip()
