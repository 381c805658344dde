"""The metadata log as Apache Kafka's controllers write it: of older releases, and cut off by snapshots."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from odradek import Broker
from tests.cluster.client import create, leaders, produce, read_all, read_in_group, until
from tests.cluster.kafka_controllers import KafkaControllers

SMALL_LOG = (
    "metadata.log.max.record.bytes.between.snapshots=2000",
    "metadata.log.max.snapshot.interval.ms=1000",
    "internal.metadata.log.segment.bytes=20000",
    "metadata.max.retention.bytes=1000",
    "metadata.max.idle.interval.ms=100",
)
CLEANING_SECONDS = 60
"""How often a controller looks for old segments."""


@pytest.mark.parametrize("release", ["3.9", "4.0", "4.1", "4.4"])
def test_the_features_of_each_release(tmp_path: Path, release: str, request: pytest.FixtureRequest) -> None:
    if release != "4.4" and not request.config.getoption("--torture"):
        pytest.skip("older releases are for make torture")
    with (
        KafkaControllers(tmp_path, release=release) as controllers,
        Broker(controllers.broker_settings(1), start_timeout=90) as broker,
    ):
        bootstrap = broker.bootstrap_servers
        create(AdminClient({"bootstrap.servers": bootstrap}), "topic", 2)
        assert produce(bootstrap, "topic", map(str, range(100)), 2) == 100
        assert sorted(read_in_group(bootstrap, "topic", "group", 100)) == sorted(map(str, range(100)))
        broker.restart()
        assert sorted(read_all(bootstrap, "topic", 2, 100)) == sorted(map(str, range(100)))
        assert "Traceback" not in broker.log()


@pytest.mark.torture
def test_a_broker_that_was_away_while_the_log_was_cut_off_takes_a_snapshot(tmp_path: Path) -> None:
    with (
        KafkaControllers(tmp_path, settings=SMALL_LOG) as controllers,
        Broker(controllers.broker_settings(1), start_timeout=90) as stays,
        Broker(controllers.broker_settings(2), start_timeout=90) as leaves,
    ):
        admin = AdminClient({"bootstrap.servers": stays.bootstrap_servers})
        before = create(admin, "before", 4)
        leaves.kill()
        for number in range(20):
            create(admin, f"meanwhile-{number}", 1)
        admin.delete_topics(["meanwhile-0"])["meanwhile-0"].result(30)
        folder = tmp_path / str(controllers.ids[0]) / "__cluster_metadata-0"
        until(lambda: not (folder / f"{0:020}.log").exists(), "the log was cut off", CLEANING_SECONDS + 30)
        leaves.start()
        assert "metadata snapshot is fetched" in leaves.log()
        until(lambda: leaders(admin, "before") == before, "it leads again")
        known = AdminClient({"bootstrap.servers": leaves.bootstrap_servers}).list_topics(timeout=10).topics
        assert {f"meanwhile-{number}" for number in range(1, 20)} | {"before"} == set(known)
        create(admin, "after", 2)
        time.sleep(1)
        assert "after" in AdminClient({"bootstrap.servers": leaves.bootstrap_servers}).list_topics(timeout=10).topics
        assert "Traceback" not in leaves.log() + stays.log()
