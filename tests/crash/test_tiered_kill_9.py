"""kill -9 while segments are copied to remote storage: what was acknowledged is read, nothing is left over there."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from odradek import Broker
from tests.command_line import Odradek
from tests.crash.reading import read_partition
from tests.crash.test_kill_9 import PARTITIONS, TOPIC, Sender

ROUNDS, TORTURE_ROUNDS = 2, 15
SETTINGS = {
    "remote.log.storage.system.enable": "true",
    "remote.log.storage.manager.class.name": "folder",
    "remote.log.manager.task.interval.ms": "50",
    "log.retention.check.interval.ms": "50",
    "log.initial.task.delay.ms": "50",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "2",
}
TIERED = {
    "remote.storage.enable": "true",
    "segment.bytes": str(1 << 20),
    "local.retention.bytes": "1",
    "retention.ms": "-1",
    "file.delete.delay.ms": "0",
}


@pytest.fixture
def broker(tmp_path: Path, own_cluster: None) -> Iterator[Broker]:
    with Broker({**SETTINGS, "rsm.config.dir": str(tmp_path / "store")}, profile="dev") as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1, config=TIERED)])[TOPIC].result(30)
        yield broker


def test_tiered_records_outlive_kill_9(broker: Broker, request: pytest.FixtureRequest) -> None:
    rounds = TORTURE_ROUNDS if request.config.getoption("--torture") else ROUNDS
    chance = random.Random(5)
    with Sender(broker.bootstrap_servers, "steady", "none") as sender:
        for _ in range(rounds):
            sender.wait_for_more(chance.randrange(4000, 12_000))
            broker.kill()
            broker.start()
        sender.wait_for_more(2000)
        sender.finish()

    for partition in range(PARTITIONS):
        found = read_partition(broker.bootstrap_servers, TOPIC, partition)
        assert [found[offset] for offset in sorted(found)] == sender.values(partition)
        for (where, offset), value in sender.acknowledged.items():
            if where == partition:
                assert found[offset] == value

    odradek = Odradek(broker.bootstrap_servers)
    for _ in range(100):
        status, out, _ = odradek.run("tier", "verify")
        assert status == 0, out
        if "belong to no segment" not in out:
            break
        time.sleep(0.1)
    assert "belong to no segment" not in out
    assert "0 segments looked for" not in out
    assert "Traceback" not in broker.log()
