"""Snapshots of a running broker: one moment of everything, restored while clients are connected, or elsewhere."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from odradek import Broker, ControlError, Snapshot, Topic
from tests.brokers import sound_broker
from tests.waiting import wait_until

PAUSE_S = 0.005
"""Between two pairs of a load, so that 100 turns do not write more than can be compared."""

QUIET: dict[str, Any] = {"log_level": 0, "topic.metadata.refresh.interval.ms": 1_000, "reconnect.backoff.max.ms": 100}


@pytest.fixture
def broker() -> Iterator[Broker]:
    with sound_broker() as broker:
        yield broker


def committed(broker: Broker, group: str, topic: str, partitions: int = 1) -> dict[int, int]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group, **QUIET})
    found = consumer.committed([TopicPartition(topic, index) for index in range(partitions)], 30)
    consumer.close()
    return {one.partition: one.offset for one in found}


def commit(broker: Broker, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group, **QUIET})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def texts(topic: Topic, **options: Any) -> list[str | None]:
    return [record.text for record in topic.records(**options)]


def test_everything_is_as_it_was(broker: Broker) -> None:
    orders = broker.topic("orders", partitions=3, configs={"retention.ms": 1_000_000})
    doomed = broker.topic("doomed")
    orders.produce_many([("k", str(number)) for number in range(10)])
    doomed.produce("kept")
    commit(broker, "readers", "doomed", 1)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "tx", **QUIET})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("doomed", b"open")
    producer.flush(30)
    before = (
        orders.records(),
        orders.end_offsets(),
        doomed.records(committed=False),
        broker.topics(internal=True).keys(),
    )

    snapshot = broker.snapshot()
    producer.commit_transaction()
    orders.produce_many(["later"] * 5)
    orders.truncate()
    broker.topic("new").produce("later")
    commit(broker, "readers", "doomed", 2)
    doomed.delete()
    broker.restore(snapshot)

    after = orders.records(), orders.end_offsets(), doomed.records(committed=False), broker.topics(internal=True).keys()
    assert after == before
    assert committed(broker, "readers", "doomed") == {0: 1}
    assert texts(doomed) == ["kept"]  # the transaction is open again
    second = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "tx", **QUIET})
    second.init_transactions()  # and is aborted by its next producer
    assert doomed.produce("after").text == "after"
    assert texts(doomed) == ["kept", "after"]
    broker.restart()
    assert (orders.records(), texts(doomed)) == (before[0], ["kept", "after"])


def test_one_snapshot_is_restored_as_often_as_one_likes_and_is_never_changed(broker: Broker) -> None:
    orders = broker.topic("orders", configs={"segment.bytes": 1 << 20})
    orders.produce_many([bytes(1_000)] * 3_000)  # several segments
    before = orders.records()
    snapshot = broker.snapshot()
    for turn in range(3):
        orders.produce(str(turn))
        orders.truncate()
        broker.restore(snapshot)
        assert orders.records() == before
        assert orders.produce("more").offset == 3_000
    snapshot.delete()
    assert len(orders.records()) == 3_001
    with pytest.raises(ControlError, match=r"is no snapshot: it has no snapshot\.json") as caught:
        broker.restore(snapshot)
    assert caught.value.parameter == "path"


def test_clients_stay_connected_and_go_on(broker: Broker) -> None:
    broker.topic("orders")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **QUIET})
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest", **QUIET}
    )
    consumer.subscribe(["orders"])

    def pass_on(value: str) -> None:
        producer.produce("orders", value)
        assert producer.flush(30) == 0
        assert next_value(consumer) == value.encode()

    pass_on("before")
    snapshot = broker.snapshot()
    for turn in range(5):
        broker.restore(snapshot)
        pass_on(str(turn))
    consumer.close()
    assert texts(broker.topics()["orders"]) == ["before", "4"]


def next_value(consumer: Consumer, timeout: float = 30.0) -> bytes | None:
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            return message.value()
    return None


class Load:
    """Two kinds of load at once, each of which notes what is wrong with its answers.

    A producer writes number n to `first`, then to `second`: at any one moment `first` has as much or one more. A group
    consumes and commits all the time.
    """

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.first, self.second = broker.topic("first"), broker.topic("second")
        self.problems: list[str] = []
        self.written = 0
        self.consumed = 0
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=[one]) for one in (self._pair, self._consume)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - shown by the test
            self.problems.append(repr(error))

    def _pair(self) -> None:
        def delivered(error: KafkaError | None, _message: object) -> None:
            if error is not None:
                self.problems.append(f"not delivered: {error}")

        config = {"bootstrap.servers": self.broker.bootstrap_servers, "linger.ms": 0, **QUIET}
        producer = Producer(config)
        while not self._stop.is_set():
            for topic in ("first", "second"):
                producer.produce(topic, str(self.written).encode(), on_delivery=delivered)
                if producer.flush(30):
                    self.problems.append("a record was neither written nor refused within 30 s")
            self.written += 1
            self._stop.wait(PAUSE_S)

    def _consume(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self.broker.bootstrap_servers,
                "group.id": "loaded",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **QUIET,
            }
        )
        consumer.subscribe(["second"])
        while not self._stop.is_set():
            message = consumer.poll(0.1)
            if message is None:
                continue
            error = message.error()
            if error is not None:
                if error.fatal():
                    self.problems.append(f"fatal: {error}")
                continue
            self.consumed += 1
            try:
                consumer.commit(message=message, asynchronous=False)
            except KafkaException as failed:
                code = failed.args[0]
                if code.fatal():
                    self.problems.append(f"commit: {code}")
        consumer.close()


def numbers(topic: Topic) -> list[int]:
    return [int(record.text or "") for record in topic.records()]


@pytest.mark.timeout(600)
def test_many_snapshots_and_restores_under_load(request: pytest.FixtureRequest) -> None:
    times = 100 if request.config.getoption("--torture") else 25
    with sound_broker({"offsets.topic.num.partitions": 1}) as broker, Load(broker) as load:
        kept: list[Snapshot] = []
        restored_by = -1
        for _ in range(times):
            base = numbers(load.first)
            snapshot = broker.snapshot()
            taken_by = load.written
            restored_from = load.written
            broker.restore(snapshot)
            first, second = numbers(load.first), numbers(load.second)
            assert all(one < another for one, another in pairwise(first)), "doubled or out of order"
            assert set(base) <= set(first), "what was there before the snapshot is lost"
            assert not [one for one in first if taken_by < one < restored_from], "the snapshot has what came later"
            since = [[one for one in each if restored_by < one < taken_by] for each in (first, second)]
            assert since[1] in (since[0], since[0][:-1]), "not one moment of both topics"
            restored_by = load.written
            kept.append(snapshot)
            if len(kept) > 3:
                kept.pop(0).delete()
        assert load.written > times
        consumed = load.consumed
        wait_until(lambda: load.consumed > consumed, "the group no longer consumes")
    assert load.problems == []


def test_what_is_damaged_of_another_format_or_node_is_refused_and_nothing_is_lost(
    broker: Broker, tmp_path: Path
) -> None:
    orders = broker.topic("orders")
    orders.produce("a")
    path = tmp_path / "s"
    broker.snapshot(path)
    orders.produce("b")
    manifest = path / "snapshot.json"
    intact = manifest.read_text()
    content = json.loads(intact)

    def refused(match: str) -> None:
        with pytest.raises(ControlError, match=match) as caught:
            broker.restore(path)
        assert caught.value.parameter == "path"
        assert texts(orders) == ["a", "b"]

    manifest.write_text(json.dumps(content | {"format": 2}))
    refused(r"has the format 2; this release reads 1")
    manifest.write_text(intact[:-20])
    refused("is damaged: snapshot.json is no JSON")
    manifest.write_text("{}")
    refused("has the format None")
    manifest.write_text(json.dumps({"format": 1}))
    refused("is damaged: snapshot.json lacks or has a wrong 'folders'")
    manifest.write_text(json.dumps(content | {"folders": [{"../../etc/passwd": [1, None]}]}))
    refused("is damaged")
    manifest.write_text(json.dumps(content | {"node_id": 7}))
    refused(r"is of node 7; this is node 1 \(node\.id\)")
    manifest.write_text(json.dumps(content | {"folders": content["folders"] * 2}))
    refused(r"is damaged|has 2 folders")
    manifest.write_text(intact)
    segment = path / "0" / "orders-0" / f"{0:020d}.log"
    data = segment.read_bytes()
    segment.write_bytes(data[:-1] + b"?")
    refused(r"the content of 0/orders-0/.*\.log is another")
    segment.write_bytes(data[:-1])
    refused(r"\.log has \d+ bytes, not \d+")
    segment.unlink()
    refused(r"\.log is missing")
    segment.write_bytes(data)
    with pytest.raises(ControlError, match="exists already") as caught:
        broker.snapshot(path)
    assert caught.value.parameter == "path"
    with pytest.raises(ControlError, match="expected an absolute path"):
        broker.control.post("/snapshots", path="here")
    with pytest.raises(ControlError, match="is no snapshot"):
        broker.control.delete("/snapshots", path=str(tmp_path))
    assert tmp_path.exists()
    broker.restore(path)
    assert texts(orders) == ["a"]


def test_another_broker_begins_with_a_snapshot_and_keeps_what_it_adds(broker: Broker, tmp_path: Path) -> None:
    orders = broker.topic("orders", partitions=2)
    orders.produce_many(["a", "b", "c"])
    commit(broker, "readers", "orders", 1)
    snapshot = broker.snapshot(tmp_path / "kept")
    broker.close()
    with sound_broker() as other:
        other.restore(snapshot)
        assert len(other.topics()["orders"].records()) == 3
    with Broker(snapshot=tmp_path / "kept") as third:
        again = third.topic("orders", partitions=2)
        assert sorted(map(str, texts(again))) == ["a", "b", "c"]
        assert committed(third, "readers", "orders", 2) == {0: 1, 1: -1001}
        again.produce("d")
        third.kill()
        third.start()
        assert sorted(map(str, texts(again))) == ["a", "b", "c", "d"]
        third.stop()
        with pytest.raises(ValueError, match="has data already"):
            Broker(snapshot=snapshot, data_dir=third.data_dir)
    with pytest.raises(ValueError, match=r"is no snapshot: it has no snapshot\.json"):
        Broker(snapshot=tmp_path)
    (tmp_path / "kept" / "0" / "orders-0" / f"{0:020d}.log").write_bytes(b"")
    with pytest.raises(Exception, match=r"odradek\.snapshot: the snapshot .* is damaged"), Broker(snapshot=snapshot):
        pass


def test_the_command_backup_creates_and_restores(broker: Broker, tmp_path: Path) -> None:
    orders = broker.topic("orders")
    orders.produce("a")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "odradek", "backup", *arguments]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)

    saved = run("create", "s", "--control", broker.control.url)
    assert (saved.returncode, saved.stderr) == (0, "")
    assert saved.stdout.startswith(f"backup {tmp_path / 's'}: ")
    orders.produce("b")
    loaded = run("restore", "s", "--control", broker.control.url)
    assert (loaded.returncode, loaded.stderr, texts(orders)) == (0, "", ["a"])
    missing = run("restore", "t", "--control", broker.control.url)
    assert (missing.returncode, "is no snapshot" in missing.stderr) == (1, True)
    assert run("restore", "s", "--control", "nowhere").returncode == 2
    assert run("keep", "s", "--control", broker.control.url).returncode == 2
