"""Clusters with tiered storage in one folder, of brokers of ours and of Apache Kafka's with FolderStorage.java."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic
from kio.schema.alter_partition_reassignments.v1.request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kio.schema.elect_leaders.v2.request import ElectLeadersRequest

from tests.client import kafka_node
from tests.cluster.client import ask, leaders, until

SOURCE = Path(__file__).parents[1] / "client" / "java" / "FolderStorage.java"
CONTROLLERS = ("remote.log.storage.system.enable=true",)
TIERED = {
    "remote.storage.enable": "true",
    "segment.bytes": str(1 << 20),
    "local.retention.bytes": "1",
    "retention.ms": "-1",
    "file.delete.delay.ms": "100",
    "min.insync.replicas": "1",
}
REQUEST_TIME = timedelta(seconds=30)
PREFERRED = 0


def settings(store: Path, replicas: int = 3) -> dict[str, object]:
    """Those of every broker."""
    return {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": "folder",
        "rsm.config.dir": str(store),
        "remote.log.manager.task.interval.ms": "500",
        "log.retention.check.interval.ms": "500",
        "log.initial.task.delay.ms": "500",
        "rlmm.config.remote.log.metadata.topic.num.partitions": "3",
        "rlmm.config.remote.log.metadata.topic.replication.factor": str(replicas),
        "rlmm.config.remote.log.metadata.topic.min.isr": "1",
    }


def java_settings(classes: Path) -> dict[str, object]:
    """Those of Apache Kafka's brokers besides; FolderStorage is compiled into that folder."""
    command = ["javac", "-cp", f"{kafka_node.jars()}/*", "-d", str(classes), str(SOURCE)]
    subprocess.run(command, check=True, timeout=60)
    return {
        "remote.log.storage.manager.class.name": "FolderStorage",
        "remote.log.storage.manager.class.path": f"{classes}/",
        "remote.log.metadata.manager.listener.name": "PLAINTEXT",
    }


def create(admin: AdminClient, topic: str, replicas: Sequence[int]) -> None:
    """A tiered topic of one partition; the first of these replicas leads."""
    wanted = NewTopic(topic, 1, replica_assignment=[list(replicas)], config=TIERED)
    admin.create_topics([wanted])[topic].result(60)
    until(lambda: leaders(admin, topic) == {0: replicas[0]}, f"{topic} is led by {replicas[0]}")


def place(
    admin: AdminClient, address: str, topic: str, replicas: Sequence[int], index: int = 0, seconds: float = 90
) -> None:
    """Let a partition have these replicas, in sync, the first as its leader."""
    partition = ReassignablePartition(partition_index=index, replicas=tuple(replicas))
    request = AlterPartitionReassignmentsRequest(
        timeout=REQUEST_TIME,
        allow_replication_factor_change=True,
        topics=(ReassignableTopic(name=topic, partitions=(partition,)),),
    )
    assert ask(address, request).responses[0].partitions[0].error_code.name == "none"

    def is_done() -> bool:
        one = admin.list_topics(topic, timeout=30).topics[topic].partitions[index]
        return sorted(one.replicas) == sorted(one.isrs) == sorted(replicas)

    until(is_done, f"{topic} has the replicas {replicas}", seconds)
    ask(address, ElectLeadersRequest(election_type=PREFERRED, topic_partitions=None, timeout=REQUEST_TIME))
    until(lambda: leaders(admin, topic).get(index) == replicas[0], f"{topic}-{index} is led by {replicas[0]}")


def local_segments(folder: Path, topic: str) -> list[int]:
    """The base offsets of the segments in a broker's own folder."""
    return sorted(int(path.stem) for path in (folder / f"{topic}-0").glob("*.log"))


def copied_segments(store: Path, topic: str) -> int:
    """The logs of the topic in remote storage."""
    return len(list((store / "kafka-tiered-storage").glob(f"{topic}-0-*/*.log")))
