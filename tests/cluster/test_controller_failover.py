"""Three controllers of Apache Kafka, of which the active one is killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.cluster.client import create, leaders, produce, read_all
from tests.cluster.conftest import brokers_of
from tests.cluster.kafka_controllers import KafkaControllers


@pytest.fixture
def three(tmp_path: Path) -> Iterator[KafkaControllers]:
    with KafkaControllers(tmp_path, 3) as controllers:
        yield controllers


def test_brokers_find_the_new_active_controller(three: KafkaControllers) -> None:
    with brokers_of(three) as brokers:
        bootstrap = brokers[1].bootstrap_servers
        admin = AdminClient({"bootstrap.servers": bootstrap})
        create(admin, "before", 3)
        for _ in range(2):
            killed = three.active()
            three.kill(killed)
            name = f"after-{killed}"
            create(admin, name, 3)
            assert produce(bootstrap, name, map(str, range(30)), 3) == 30
            three.start(killed)
            assert three.active() != killed
        assert sorted(read_all(bootstrap, name, 3, 30)) == sorted(map(str, range(30)))
        assert len(leaders(admin, "before")) == 3
        for broker in brokers.values():
            assert "fenced by the controller" not in broker.log()
