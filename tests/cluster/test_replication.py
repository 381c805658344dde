"""Replication over real processes: brokers of ours alone, and beside brokers of Apache Kafka, under kill -9."""

from __future__ import annotations

import os
import random
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cluster.kafka_controllers import KafkaControllers
from tests.cluster.load import Load, check_replicas, complaints
from tests.cluster.mixed_cluster import AnyBroker, bootstrap, mixed, until_in_sync

PARTITIONS = 3
REPLICAS = 3
ROUNDS = int(os.environ.get("REPLICATION_ROUNDS", "3"))


@pytest.mark.parametrize(("ours", "theirs"), [(3, 0), (2, 1), (1, 2)])
@pytest.mark.timeout(600 + 60 * ROUNDS)
def test_replicas_stay_equal_and_lose_nothing(
    controllers: KafkaControllers, tmp_path: Path, ours: int, theirs: int
) -> None:
    rng = random.Random(ours)
    with mixed(controllers, tmp_path, ours, theirs) as brokers:
        admin = AdminClient({"bootstrap.servers": bootstrap(brokers)})
        topic = f"replicated-{ours}-{theirs}"
        settings = {"min.insync.replicas": "2", "segment.bytes": "1048576"}
        admin.create_topics([NewTopic(topic, PARTITIONS, REPLICAS, config=settings)])[topic].result(30)
        until_in_sync(admin, topic, REPLICAS)
        with ExitStack() as stack:
            loads = [stack.enter_context(Load(bootstrap(brokers), topic, PARTITIONS, f"load{n}")) for n in range(2)]
            for _ in range(ROUNDS):
                kill_and_return(brokers, rng)
                until_in_sync(admin, topic, REPLICAS)
                time.sleep(rng.uniform(0, 1))
        assert not any(load.failed for load in loads), loads[0].failed[:3] + loads[1].failed[:3]
        until_in_sync(admin, topic, REPLICAS)
        time.sleep(1)
        for broker in brokers.values():
            broker.end()
        folders = [broker.folder for broker in brokers.values()]
        assert check_replicas(folders, topic, PARTITIONS, loads) >= sum(len(load.acknowledged) for load in loads) > 0
        for node_id in range(1, ours + 1):
            assert complaints(brokers[node_id].folder) == []


def kill_and_return(brokers: dict[int, AnyBroker], rng: random.Random) -> None:
    """Kill a broker; let it come back before or after its session has ended."""
    broker = brokers[rng.choice(list(brokers))]
    broker.kill()
    time.sleep(rng.choice([0, 2, 12]))
    broker.start()
