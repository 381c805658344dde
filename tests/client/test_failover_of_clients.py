"""Stock clients of a cluster go on through the kill of the leaders and of the coordinators that they use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek import Cluster
from tests.client import groups, java_tools
from tests.client.failover import Work
from tests.client.transactional import play_aiokafka, play_confluent, play_franz_go, play_java

pytestmark = pytest.mark.usefixtures("own_cluster")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(brokers=3, settings=groups.SETTINGS, data_dir=tmp_path / "cluster") as running:
        yield running
        for broker in running.brokers:
            assert "Traceback" not in broker.log(), broker.log()


def test_producers_and_groups_go_on_when_the_broker_of_leaders_and_coordinators_is_killed(cluster: Cluster) -> None:
    plays = {"confluent-kafka": play_confluent, "aiokafka": play_aiokafka}
    with Work(cluster, plays, ["confluent-new", "aiokafka"]) as work:
        work.kill_leader_of([*work.leaders, *work.coordinators], 0)
        work.check()


@pytest.mark.torture
def test_all_clients_go_on_through_the_kill_of_each_leader_and_each_coordinator(cluster: Cluster) -> None:
    for reason in (java_tools.missing(), groups.missing(groups.FRANZ_GO)):
        if reason is not None:
            pytest.skip(reason)
    plays = {
        "confluent-kafka": play_confluent,
        "aiokafka": play_aiokafka,
        "java": play_java,
        "franz-go": play_franz_go,
    }
    kinds = ["aiokafka", "confluent-cooperative", "confluent-new", "java", "java-new", groups.FRANZ_GO]
    with Work(cluster, plays, kinds) as work:
        for index in range(len(cluster.brokers)):
            work.kill_leader_of(work.leaders, index)
            work.kill_leader_of(work.coordinators, index)
        work.check()
