"""A backup that is made while transactions and a group are at work; another broker begins with it, and they go on."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from odradek import Broker
from tests.command_line import Odradek

pytestmark = pytest.mark.usefixtures("own_cluster")

LEFT, RIGHT, GROUP = "left", "right", "readers"
PATIENCE_S = 60.0
HERE = Odradek("")


class Transactions:
    """Each writes its number to both topics, in a thread, until it is told to stop."""

    def __init__(self, bootstrap: str) -> None:
        self.committed: list[int] = []
        self._stop = threading.Event()
        self._failed: BaseException | None = None
        self._producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "writer", "log_level": 0})
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Transactions:
        self._producer.init_transactions(PATIENCE_S)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        if self._failed is not None:
            raise self._failed

    def _run(self) -> None:
        try:
            number = 0
            while not self._stop.is_set():
                self._producer.begin_transaction()
                for topic in (LEFT, RIGHT):
                    self._producer.produce(topic, str(number).encode(), partition=0)
                self._producer.commit_transaction(PATIENCE_S)
                self.committed.append(number)
                number += 1
        except BaseException as error:  # noqa: BLE001 - it is raised where the test looks
            self._failed = error


def reader(bootstrap: str, group: str = GROUP) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 6000,  # the backup has the member, which does not come back
            "log_level": 0,
        }
    )


def numbers(bootstrap: str, topic: str) -> list[int]:
    """All that a consumer may see of a topic now."""
    consumer = reader(bootstrap, "anybody")
    place = TopicPartition(topic, 0, OFFSET_BEGINNING)
    consumer.assign([place])
    found: list[int] = []
    while (message := consumer.poll(2)) is not None:
        assert message.error() is None, message.error()
        found.append(int(message.value() or b""))
    consumer.close()
    return found


def read_and_commit(consumer: Consumer, count: int) -> list[int]:
    found: list[int] = []
    while len(found) < count:
        message = consumer.poll(PATIENCE_S)
        assert message is not None, f"only {len(found)} of {count} came"
        assert message.error() is None, message.error()
        found.append(int(message.value() or b""))
        consumer.commit(message=message, asynchronous=False)
    return found


def test_a_backup_under_load_has_each_transaction_whole_and_the_group_where_it_was(tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    with Broker() as broker:
        for topic in (LEFT, RIGHT):
            broker.topic(topic, partitions=1)
        consumer = reader(broker.bootstrap_servers)
        consumer.subscribe([LEFT])
        with Transactions(broker.bootstrap_servers) as load:
            seen = read_and_commit(consumer, 20)
            done = len(load.committed)
            HERE.told("backup", "create", str(backup), "--control", broker.control.url, at="")
            later = read_and_commit(consumer, 20)
        consumer.close()
    assert seen + later == list(range(40))
    assert "0 damaged" in HERE.told("backup", "verify", str(backup), at="")
    with Broker({"odradek.snapshot": str(backup)}) as other:
        left, right = numbers(other.bootstrap_servers, LEFT), numbers(other.bootstrap_servers, RIGHT)
        assert left == right == list(range(len(left)))
        assert len(left) >= done, "what was committed before the backup is in it"
        consumer = reader(other.bootstrap_servers)
        (at,) = consumer.committed([TopicPartition(LEFT, 0)], PATIENCE_S)
        assert at.offset > 0
        consumer.subscribe([LEFT])
        goes_on = read_and_commit(consumer, 1)
        consumer.close()
        assert goes_on == [20], "the group goes on behind what it had committed"
        with Transactions(other.bootstrap_servers):
            pass
